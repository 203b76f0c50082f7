//! Graphics processors, each of which belongs to one interpreter at a time.
//!
//! An interpreter that has some of its own is started with the variables by which libraries choose devices. The variables
//! are advice: they keep programs apart that do not mean to disturb each other.

use crate::cage::Maker;
use phalanx_net::sync::lock;
use std::sync::{Arc, Mutex};

/// The variables of each maker's libraries. Libraries of AMD read NVIDIA's variable too, and apply one on the other, so only one of
/// AMD's is set.
const VARIABLES: [(Maker, &str); 3] =
    [(Maker::Nvidia, "CUDA_VISIBLE_DEVICES"), (Maker::Amd, "HIP_VISIBLE_DEVICES"), (Maker::Intel, "ZE_AFFINITY_MASK")];
/// The order in which NVIDIA's libraries count: that of the bus. By default, the fastest one is the first.
const ORDER: (&str, &str) = ("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
/// The device that no machine has.
const NONE: &str = "-1";

/// The graphics processors of a machine.
#[derive(Debug, Default)]
pub struct Gpus {
    /// The maker of each, and its name in the maker's variable.
    devices: Vec<(Maker, String)>,
    taken: Mutex<Vec<bool>>,
}

/// Graphics processors that belong to one interpreter until this is dropped.
#[derive(Debug)]
pub struct Taken {
    gpus: Arc<Gpus>,
    numbers: Vec<usize>,
}

impl Gpus {
    /// Those of this machine that this process may use. `variable`: the value of a variable in its environment, which may already leave
    /// some out.
    pub fn of(makers: &[Maker], variable: impl Fn(&str) -> Option<String>) -> Gpus {
        let mut devices: Vec<(Maker, String)> = Vec::new();
        for (maker, name) in VARIABLES {
            let count = makers.iter().filter(|it| **it == maker).count();
            let numbers = (0..count).map(|number| number.to_string());
            let given = variable(name).filter(|_| count > 0);
            let named =
                given.as_deref().map(|it| it.split(',').map(str::trim).take_while(|it| !it.is_empty() && *it != NONE));
            match named {
                Some(named) => devices.extend(named.take(count).map(|it| (maker, it.to_owned()))),
                None => devices.extend(numbers.map(|it| (maker, it))),
            }
        }
        let taken = Mutex::new(vec![false; devices.len()]);
        Gpus { devices, taken }
    }

    /// Those of this machine that this process may use.
    pub fn here() -> Gpus {
        Gpus::of(&crate::cage::makers(), |name| std::env::var(name).ok())
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.devices.len()
    }

    /// Takes so many that are free. They are of one maker where that is possible.
    ///
    /// # Errors
    /// Fewer are free, in words.
    pub fn take(self: &Arc<Gpus>, count: u32) -> Result<Option<Taken>, String> {
        let count = count as usize;
        if count == 0 {
            return Ok(None);
        }
        let mut taken = lock(&self.taken);
        let free: Vec<usize> = (0..taken.len()).filter(|number| !taken[*number]).collect();
        if free.len() < count {
            let (all, used) = (taken.len(), taken.len() - free.len());
            return Err(format!("{used} of its {all} GPUs are in use, and {count} are needed"));
        }
        let of = |maker| free.iter().copied().filter(|it| self.devices[*it].0 == maker).collect::<Vec<_>>();
        let one_maker = VARIABLES.iter().map(|(maker, _)| of(*maker)).find(|it| it.len() >= count);
        let numbers: Vec<usize> = one_maker.unwrap_or(free).into_iter().take(count).collect();
        numbers.iter().for_each(|number| taken[*number] = true);
        Ok(Some(Taken { gpus: self.clone(), numbers }))
    }
}

impl Taken {
    /// How many they are.
    pub fn count(&self) -> u32 {
        self.numbers.len() as u32
    }

    /// The variables by which libraries see these only.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let own = |maker| {
            let own = self.numbers.iter().map(|it| &self.gpus.devices[*it]).filter(|it| it.0 == maker);
            own.map(|it| it.1.as_str()).collect::<Vec<_>>().join(",")
        };
        let is_there = |maker| self.gpus.devices.iter().any(|it| it.0 == maker);
        let mut variables: Vec<(&str, String)> = Vec::new();
        for (maker, name) in VARIABLES.into_iter().filter(|(maker, _)| is_there(*maker)) {
            let devices = own(maker);
            // Intel's variable has no word for no device.
            match devices.is_empty() {
                true if maker == Maker::Intel => {}
                true => variables.push((name, NONE.to_owned())),
                false => variables.push((name, devices)),
            }
        }
        variables.extend(is_there(Maker::Nvidia).then(|| (ORDER.0, ORDER.1.to_owned())));
        variables
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut taken = lock(&self.gpus.taken);
        self.numbers.iter().for_each(|number| taken[*number] = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &str) -> Option<String> {
        None
    }

    #[test]
    fn each_belongs_to_one_at_a_time() {
        let gpus = Arc::new(Gpus::of(&[Maker::Nvidia; 2], none));
        assert!(gpus.take(0).unwrap().is_none());
        let [one, other] = [1, 1].map(|count| gpus.take(count).unwrap().unwrap());
        let order = (ORDER.0, ORDER.1.to_owned());
        assert_eq!(one.variables(), [("CUDA_VISIBLE_DEVICES", "0".to_owned()), order.clone()]);
        assert_eq!(other.variables(), [("CUDA_VISIBLE_DEVICES", "1".to_owned()), order.clone()]);
        assert_eq!(gpus.take(1).unwrap_err(), "2 of its 2 GPUs are in use, and 1 are needed");
        drop(one);
        assert!(gpus.take(2).is_err());
        assert_eq!(gpus.take(1).unwrap().unwrap().variables()[0].1, "0");
        drop(other);
        assert_eq!(gpus.take(2).unwrap().unwrap().variables()[0].1, "0,1");
    }

    #[test]
    fn makers_have_variables_of_their_own_and_others_are_hidden() {
        let gpus = Arc::new(Gpus::of(&[Maker::Amd, Maker::Nvidia, Maker::Intel, Maker::Unknown, Maker::Intel], none));
        assert_eq!(gpus.count(), 4, "one of an unknown maker cannot be given to one interpreter");
        let two = gpus.take(2).unwrap().unwrap();
        let none = |name| (name, NONE.to_owned());
        let order = (ORDER.0, ORDER.1.to_owned());
        assert_eq!(
            two.variables(),
            [none("CUDA_VISIBLE_DEVICES"), none("HIP_VISIBLE_DEVICES"), ("ZE_AFFINITY_MASK", "0,1".to_owned()), order]
        );
    }

    #[test]
    fn those_that_the_environment_leaves_out_are_given_to_nobody() {
        let some = |value: &'static str| {
            Gpus::of(&[Maker::Nvidia; 4], move |name| (name == "CUDA_VISIBLE_DEVICES").then(|| value.to_owned()))
        };
        assert_eq!(Arc::new(some("2, GPU-abc")).take(2).unwrap().unwrap().variables()[0].1, "2,GPU-abc");
        for (value, count) in [("", 0), ("-1", 0), ("0,-1,1", 1), ("0,1,2,3,4,5,6", 4)] {
            assert_eq!(some(value).count(), count, "{value:?}");
        }
    }
}
