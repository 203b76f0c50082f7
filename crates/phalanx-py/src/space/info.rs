//! The counts of a space, for `phalanx.SpaceInfo`.

use phalanx_core::space::Info;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A dictionary with the names of `phalanx.SpaceInfo`.
pub fn to_python<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let all = PyDict::new(py);
    all.set_item("tuples", info.tuples)?;
    all.set_item("bytes", info.bytes)?;
    all.set_item("encoded_bytes", info.encoded_bytes)?;
    all.set_item("takers", info.takers)?;
    all.set_item("readers", info.readers)?;
    all.set_item("watches", info.watches)?;
    all.set_item("transactions", info.transactions)?;
    all.set_item("unacknowledged", info.unacknowledged)?;
    all.set_item("events", info.events)?;
    all.set_item("outs", info.outs)?;
    all.set_item("reads", info.reads)?;
    all.set_item("takes", info.takes)?;
    all.set_item("expired", info.expired)?;
    all.set_item("looked_at", info.looked_at)?;
    let partition = |it: &phalanx_core::space::PartitionInfo| (it.signature.clone(), it.tuples, it.indexes.clone());
    all.set_item("partitions", info.partitions.iter().map(partition).collect::<Vec<_>>())?;
    all.set_item("options", options(py, info)?)?;
    if let Some(kept) = &info.keepers {
        all.set_item("term", kept.term)?;
        let replica = |it: &phalanx_core::space::Keeper| (it.address.clone(), it.name.clone(), it.leads, it.behind);
        all.set_item("replicas", kept.members.iter().map(replica).collect::<Vec<_>>())?;
    }
    Ok(all)
}

fn options<'py>(py: Python<'py>, info: &Info) -> PyResult<Bound<'py, PyDict>> {
    let (all, options) = (PyDict::new(py), &info.options);
    all.set_item("indexes", options.indexes.clone())?;
    all.set_item("boxes", options.boxes.clone())?;
    all.set_item("automatic_indexes", options.automatic)?;
    all.set_item("order", format!("{:?}", options.order).to_lowercase())?;
    all.set_item("lease", options.lease.map(|lease| lease.as_secs_f64()))?;
    all.set_item("most_tuples", options.most_tuples)?;
    all.set_item("most_bytes", options.most_bytes)?;
    all.set_item("most_tuple_bytes", options.most_tuple_bytes)?;
    all.set_item("most_waiters", options.most_waiters)?;
    all.set_item("most_session_waiters", options.most_session_waiters)?;
    all.set_item("most_transactions", options.most_transactions)?;
    all.set_item("longest_transaction", options.longest_transaction.as_secs_f64())?;
    all.set_item("log_events", options.log_events)?;
    all.set_item("log_bytes", options.log_bytes)?;
    all.set_item("secure", options.secure)?;
    all.set_item("durable", options.durable)?;
    all.set_item("group", options.group.clone())?;
    all.set_item("maker", options.maker.clone())?;
    let replicas: Vec<&str> = options.replicas.iter().map(|replica| &replica.address[..]).collect();
    all.set_item("replicas", replicas)?;
    Ok(all)
}
