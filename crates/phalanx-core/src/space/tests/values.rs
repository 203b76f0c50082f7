//! Values, templates and queries as bytes: they survive a round trip, and hostile bytes are refused.

use super::*;
use crate::error::EncodingError;
use bytes::Bytes;
use proptest::prelude::*;
use std::cmp::Ordering;

fn name() -> impl Strategy<Value = String> {
    "[a-c:.é]{0,5}"
}

pub fn value() -> impl Strategy<Value = Value> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    let names = || proptest::collection::vec(name(), 1..4);
    let leaf = prop_oneof![
        Just(Value::None),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<i128>().prop_map(|value| Value::Big(value.to_le_bytes().to_vec())),
        any::<f64>().prop_map(Value::Float),
        name().prop_map(Value::Str),
        bytes().prop_map(Value::Bytes),
        proptest::collection::vec(0u64..3, 0..4).prop_map(|shape| {
            let items = vec![7; 8 * shape.iter().product::<u64>() as usize];
            Value::Array { dtype: "<f8".into(), shape, items }
        }),
        (names(), bytes()).prop_map(|(classes, pickle)| Value::Object { classes, pickle }),
        (any::<[u8; 16]>(), bytes()).prop_map(|(fingerprint, ciphertext)| Value::Sealed { fingerprint, ciphertext }),
    ];
    leaf.prop_recursive(4, 20, 4, move |inner| {
        let fields = proptest::collection::vec((name(), inner.clone()), 0..3);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Tuple),
            proptest::collection::vec(inner, 0..4).prop_map(Value::List),
            (names(), fields).prop_map(|(classes, fields)| Value::Record { classes, fields }),
        ]
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    let step = prop_oneof![(0u64..4).prop_map(Step::Position), name().prop_map(Step::Name)];
    let path = || proptest::collection::vec(step.clone(), 0..3);
    let actual = || value().prop_map(|value| value.to_bytes());
    let comparison = prop_oneof![
        Just(Comparison::Less),
        Just(Comparison::AtMost),
        Just(Comparison::Equal),
        Just(Comparison::NotEqual),
        Just(Comparison::More),
        Just(Comparison::AtLeast),
    ];
    prop_oneof![
        (path(), comparison, actual()).prop_map(|(path, comparison, actual)| Operation::Compare {
            path,
            comparison,
            actual
        }),
        (path(), actual(), actual()).prop_map(|(path, low, high)| Operation::Between { path, low, high }),
        (path(), actual()).prop_map(|(path, start)| Operation::StartsWith { path, start }),
        (path(), actual()).prop_map(|(path, part)| Operation::Contains { path, part }),
        (path(), proptest::collection::vec(actual(), 0..3)).prop_map(|(path, actuals)| Operation::In { path, actuals }),
        Just(Operation::And),
        Just(Operation::Or),
        Just(Operation::Not),
    ]
}

fn query() -> impl Strategy<Value = Option<Query>> {
    proptest::collection::vec(operation(), 1..5).prop_map(|operations| Query::new(operations).ok())
}

fn pattern() -> impl Strategy<Value = Pattern> {
    let simple = prop_oneof![
        value().prop_map(|value| Pattern::actual(&value)),
        Just(Pattern::Any),
        (any::<u32>(), proptest::option::of(name()), proptest::option::of(any::<u8>()))
            .prop_map(|(kinds, dtype, dimensions)| Pattern::Type(Type { kinds, dtype, dimensions })),
        name().prop_map(Pattern::Class),
        query().prop_map(|query| query.map_or(Pattern::Any, Pattern::Where)),
    ];
    simple.prop_recursive(3, 8, 3, |inner| {
        let nested = (proptest::collection::vec(inner, 0..3), query());
        nested.prop_map(|(patterns, query)| Pattern::Nested(Box::new(Template::new(patterns, query))))
    })
}

fn same(one: &Value, other: &Value) -> bool {
    one.to_bytes() == other.to_bytes()
}

proptest! {
    #[test]
    fn values_come_back(values in proptest::collection::vec(value(), 0..5)) {
        let tuple = Tuple::of(&values);
        let again = Tuple::check(tuple.bytes().clone(), &Limits::default()).unwrap();
        prop_assert!(values.iter().zip(again.values()).all(|(one, other)| same(one, &other)));
        let exact = Template::new(values.iter().map(Pattern::actual).collect(), None);
        prop_assert!(exact.matches(tuple.bytes()));
    }

    #[test]
    fn equal_bytes_are_equal_values(one in value(), other in value()) {
        // The encoding is canonical: decoding and encoding gives the same bytes.
        let bytes = one.to_bytes();
        prop_assert_eq!(Value::decode(&mut Reader::new(&bytes)).unwrap().to_bytes(), bytes.clone());
        prop_assert_eq!(bytes == other.to_bytes(), same(&one, &other));
    }

    #[test]
    fn hostile_bytes_are_no_tuple_or_one_that_comes_back(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(tuple) = Tuple::check(Bytes::from(bytes.clone()), &Limits::default()) {
            prop_assert_eq!(Tuple::of(&tuple.values()).into_bytes(), bytes);
        }
    }

    #[test]
    fn a_tuple_with_a_changed_byte_is_refused_or_another(
        values in proptest::collection::vec(value(), 0..5), at in any::<proptest::sample::Index>(), byte in any::<u8>(),
        pattern in proptest::collection::vec(pattern(), 0..5), query in query(),
    ) {
        let mut bytes = Tuple::of(&values).bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(tuple) = Tuple::check(Bytes::from(bytes.clone()), &Limits::default()) {
            prop_assert_eq!(Tuple::of(&tuple.values()).into_bytes(), bytes);
            Template::new(pattern, query).matches(tuple.bytes());
        }
    }

    #[test]
    fn templates_come_back(patterns in proptest::collection::vec(pattern(), 0..5), query in query()) {
        let template = Template::new(patterns, query);
        let mut bytes = Vec::new();
        template.encode(&mut bytes);
        prop_assert_eq!(Template::decode(&bytes, &Limits::default()), Ok(template));
    }

    #[test]
    fn a_template_with_a_changed_byte_is_refused_or_used(
        patterns in proptest::collection::vec(pattern(), 0..5), query in query(), at in any::<proptest::sample::Index>(),
        byte in any::<u8>(), values in proptest::collection::vec(value(), 0..5),
    ) {
        let mut bytes = Vec::new();
        Template::new(patterns, query).encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(template) = Template::decode(&bytes, &Limits::default()) {
            let tuple = Tuple::of(&values);
            let matches = template.matches(tuple.bytes());
            let mut bench = Bench::new();
            bench.out(&values);
            // Partitions and indexes lose nothing.
            prop_assert_eq!(bench.rdp(&template).is_some(), matches);
        }
    }

    #[test]
    fn a_space_finds_what_a_template_matches(
        patterns in proptest::collection::vec(pattern(), 0..4), query in query(),
        tuples in proptest::collection::vec(proptest::collection::vec(value(), 0..4), 1..6),
    ) {
        let template = Template::new(patterns, query);
        let mut bench = Bench::with(Options { boxes: vec![vec![0], vec![1, 2]], ..Options::default() });
        tuples.iter().for_each(|values| bench.out(values));
        let matching = tuples.iter().filter(|values| template.matches(Tuple::of(values).bytes())).count();
        prop_assert_eq!(bench.count(&template), matching as u64);
    }

    #[test]
    fn integers_are_ordered_as_integers(one in any::<i128>(), other in any::<i128>(), shift in 0u32..127) {
        let (one, other) = (one >> shift, other >> shift);
        let encoded = |value: i128| Value::Big(value.to_le_bytes().to_vec()).to_bytes();
        prop_assert_eq!(super::super::number::order(&encoded(one), &encoded(other)), Some(one.cmp(&other)));
        prop_assert_eq!(encoded(one) == encoded(other), one == other);
    }

    #[test]
    fn integers_and_floats_are_ordered_by_value(int in any::<i128>(), shift in 0u32..127, float in any::<f64>(), near in -2i32..3) {
        let int = int >> shift;
        let encoded = Value::Big(int.to_le_bytes().to_vec()).to_bytes();
        let order = |float: f64| super::super::number::order(&encoded, &Value::Float(float).to_bytes());
        let close = int as f64 + f64::from(near);
        for float in [float, close] {
            prop_assert_eq!(order(float), exact(int, float), "{} {}", int, float);
        }
    }
}

/// Compares an integer and a float by means of integers that represent both.
fn exact(int: i128, float: f64) -> Option<Ordering> {
    match float {
        _ if float.is_nan() => None,
        _ if float >= i128::MAX as f64 => Some(Ordering::Less),
        _ if float < i128::MIN as f64 => Some(Ordering::Greater),
        _ => {
            let whole = float.trunc();
            Some(int.cmp(&(whole as i128)).then(whole.partial_cmp(&float).unwrap()))
        }
    }
}

fn refused(bytes: &[u8]) -> EncodingError {
    Tuple::check(Bytes::copy_from_slice(bytes), &Limits::default()).unwrap_err()
}

#[test]
fn one_value_has_one_form() {
    assert!(matches!(refused(&[1, tag::INT, 0x80, 0]), EncodingError::NotCanonical(_)));
    assert!(matches!(refused(&[1, tag::BIG, 2, 1, 0]), EncodingError::NotCanonical(_)));
    assert!(matches!(refused(&[1, tag::BIG, 10, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0]), EncodingError::NotCanonical(_)));
    assert!(matches!(refused(&[1, tag::STR, 1, 0xff]), EncodingError::NotCanonical(_)));
    let mut nan = vec![1, tag::FLOAT];
    nan.extend_from_slice(&(-f64::NAN).to_le_bytes());
    assert!(matches!(refused(&nan), EncodingError::NotCanonical(_)));
    assert!(matches!(refused(&[1, 14]), EncodingError::Unknown(14)));
    assert_eq!(refused(&[1]), EncodingError::TooShort);
    assert_eq!(refused(&[0, 0]), EncodingError::TooLong(1));
    assert_eq!(
        refused(&[1, tag::BYTES, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]),
        EncodingError::TooShort
    );
}

#[test]
fn arrays_fill_their_dimensions() {
    let array = |dtype: &str, shape: &[u64], bytes: usize| {
        let (dtype, items) = (dtype.into(), vec![0; bytes]);
        let tuple = Tuple::of(&[Value::Array { dtype, shape: shape.to_vec(), items }]);
        Tuple::check(tuple.into_bytes(), &Limits::default()).is_ok()
    };
    assert!(array("<f8", &[2, 3], 48) && array("|b1", &[], 1) && array("<U3", &[2], 24) && array("<M8[ns]", &[1], 8));
    assert!(array("<f8", &[0, 3], 0) && array("|V16", &[1], 16));
    assert!(!array("<f8", &[2, 3], 47) && !array("|O", &[1], 8) && !array("<f", &[1], 4) && !array("", &[], 0));
    assert!(!array("<f8", &[0, 1 << 62], 0) && !array("<f8", &[1 << 40, 1 << 40], 0) && !array("|S0", &[9], 0));
}

#[test]
fn only_dtypes_that_numpy_knows_travel() {
    let travels = |dtype: &str, size: usize| {
        let tuple = Tuple::of(&[Value::Array { dtype: dtype.into(), shape: vec![1], items: vec![0; size] }]);
        Tuple::check(tuple.into_bytes(), &Limits::default()).is_ok()
    };
    for (dtype, size) in [
        ("|b1", 1),
        ("|i1", 1),
        ("<u2", 2),
        (">i8", 8),
        ("<f2", 2),
        ("<f16", 16),
        ("<c8", 8),
        ("<c32", 32),
        ("<m8", 8),
        ("<M8[D]", 8),
        ("<m8[25us]", 8),
        ("|S7", 7),
        ("<U3", 12),
        ("|V5", 5),
    ] {
        assert!(travels(dtype, size), "{dtype}");
    }
    for (dtype, size) in [
        ("|b2", 2),
        ("<i3", 3),
        ("<u16", 16),
        ("<f3", 3),
        ("<f1", 1),
        ("<c4", 4),
        ("<m4", 4),
        ("<M8[foo]", 8),
        ("<M8[]", 8),
        ("<M8[0s]", 8),
        ("<f08", 8),
        ("<f8[ns]", 8),
    ] {
        assert!(!travels(dtype, size), "{dtype}");
    }
    // Larger than an item in numpy can be, in an empty array.
    let huge = Tuple::of(&[Value::Array { dtype: "<U4000000000".into(), shape: vec![0], items: vec![] }]);
    assert!(Tuple::check(huge.into_bytes(), &Limits::default()).is_err());
}

#[test]
fn too_many_fields_and_too_deep_ones_are_refused() {
    let many = Tuple::of(&vec![Value::None; 4097]);
    assert!(matches!(refused(many.bytes()), EncodingError::TooMany { is: 4097, most: 4096, .. }));
    let deep = |levels| (0..levels).fold(Value::None, |inner, _| Value::List(vec![inner]));
    assert!(Tuple::check(Tuple::of(&[deep(32)]).into_bytes(), &Limits::default()).is_ok());
    assert!(matches!(refused(Tuple::of(&[deep(33)]).bytes()), EncodingError::TooMany { is: 33, most: 32, .. }));
    let mut hostile = vec![1];
    hostile.extend(std::iter::repeat_n([tag::LIST, 1], 100_000).flatten());
    assert!(matches!(refused(&hostile), EncodingError::TooMany { .. }));
    let small = Limits { bytes: 3, ..Limits::default() };
    assert!(Tuple::check(Tuple::of(&[str("abc")]).into_bytes(), &small).is_err());
}

#[test]
fn equality_is_exact() {
    let values =
        [int(1), Value::Float(1.0), Value::Bool(true), str("1"), Value::Bytes(b"1".to_vec()), Value::None, int(0)];
    for (place, one) in values.iter().enumerate() {
        let template = like(&[Some(one.clone())]);
        for (other, value) in values.iter().enumerate() {
            assert_eq!(template.matches(Tuple::of(std::slice::from_ref(value)).bytes()), place == other);
        }
    }
    let matches =
        |one: f64, other: f64| like(&[Some(Value::Float(one))]).matches(Tuple::of(&[Value::Float(other)]).bytes());
    assert!(matches(f64::NAN, -f64::NAN) && !matches(0.0, -0.0));
}

#[test]
fn formals_match_kinds_and_classes() {
    let fits = |pattern: &Pattern, value: Value| {
        Template::new(vec![pattern.clone()], None).matches(Tuple::of(&[value]).bytes())
    };
    assert!(fits(&Pattern::of(mask::INT), int(5)) && fits(&Pattern::of(mask::INT), Value::Big(vec![1; 9])));
    assert!(!fits(&Pattern::of(mask::INT), Value::Bool(true)) && fits(&Pattern::of(mask::BOOL), Value::Bool(true)));
    let record = || Value::Record { classes: vec!["m:Cat".into(), "m:Animal".into()], fields: vec![] };
    assert!(fits(&Pattern::Class("m:Animal".into()), record()) && !fits(&Pattern::Class("m:Dog".into()), record()));
    let array = || Value::Array { dtype: "<f8".into(), shape: vec![1, 1], items: vec![0; 8] };
    let formal = |dtype: Option<&str>, dimensions| {
        Pattern::Type(Type { kinds: mask::ARRAY, dtype: dtype.map(str::to_owned), dimensions })
    };
    assert!(fits(&formal(None, None), array()) && fits(&formal(Some("<f8"), Some(2)), array()));
    assert!(!fits(&formal(Some("<f4"), None), array()) && !fits(&formal(None, Some(1)), array()));
    let nested = Pattern::Nested(Box::new(like(&[Some(int(1)), None])));
    assert!(
        fits(&nested, Value::Tuple(vec![int(1), Value::None])) && !fits(&nested, Value::List(vec![int(1), int(2)]))
    );
}

#[test]
fn queries_ask_of_fields_records_and_tuples() {
    let above = |path: &[Step], limit: i64| {
        let (comparison, actual) = (Comparison::More, int(limit).to_bytes());
        Operation::Compare { path: path.to_vec(), comparison, actual }
    };
    let record = Value::Record { classes: vec!["m:A".into()], fields: vec![("score".into(), int(5))] };
    let tuple = Tuple::of(&[str("x"), record, Value::Tuple(vec![Value::Float(2.5), str("inside")])]);
    let holds = |operations: Vec<Operation>| {
        Template::new(vec![Pattern::Any; 3], Some(Query::new(operations).unwrap())).matches(tuple.bytes())
    };
    let score = [Step::Name("score".into())];
    assert!(holds(vec![above(&score, 4)]) && !holds(vec![above(&score, 5)]));
    assert!(holds(vec![above(&[Step::Position(1), score[0].clone()], 4)]));
    assert!(holds(vec![above(&[Step::Position(2), Step::Position(0)], 2)]));
    assert!(!holds(vec![above(&[Step::Position(9)], 0)]) && !holds(vec![above(&[Step::Position(0)], 0)]));
    let (yes, no) = (above(&score, 0), above(&score, 9));
    assert!(
        holds(vec![yes.clone(), no.clone(), Operation::Or]) && !holds(vec![yes.clone(), no.clone(), Operation::And])
    );
    assert!(holds(vec![yes.clone(), no.clone(), Operation::Not, Operation::And]));
    let path = vec![Step::Position(2), Step::Position(1)];
    let part = |text: &str| str(text).to_bytes();
    assert!(holds(vec![Operation::Contains { path: path.clone(), part: part("sid") }]));
    assert!(holds(vec![Operation::StartsWith { path: path.clone(), start: part("in") }]));
    assert!(!holds(vec![Operation::StartsWith { path: path.clone(), start: part("side") }]));
    assert!(holds(vec![Operation::In { path: path.clone(), actuals: vec![part("a"), part("inside")] }]));
    assert!(holds(vec![Operation::Contains { path: vec![Step::Position(2)], part: part("inside") }]));
    let between =
        |low, high| Operation::Between { path: score.to_vec(), low: int(low).to_bytes(), high: int(high).to_bytes() };
    assert!(holds(vec![between(5, 5)]) && !holds(vec![between(6, 9)]));
    assert!(Query::new(vec![Operation::And]).is_err() && Query::new(vec![yes.clone(), yes]).is_err());
    let many = |count: usize| {
        let not = std::iter::repeat_n(Operation::Not, count - 1);
        Query::new(std::iter::once(above(&score, 0)).chain(not).collect())
    };
    assert!(many(64).is_ok() && many(65).is_err());
    assert!(Query::new(vec![]).is_err() && Query::new(vec![Operation::Not, no]).is_err());
}

#[test]
fn a_template_has_values_as_a_tuple_and_little_beside() {
    let limits = Limits { bytes: 4 << 20, ..Limits::default() };
    let decode = |patterns: Vec<Pattern>, query| {
        let mut bytes = Vec::new();
        Template::new(patterns, query).encode(&mut bytes);
        Template::decode(&bytes, &limits)
    };
    let long = |bytes: usize| Value::Bytes(vec![7; bytes]);
    let actual = |bytes| Pattern::actual(&long(bytes));
    assert!(decode(vec![actual((4 << 20) - 100), Pattern::Any], None).is_ok());
    let nested = |bytes| Pattern::Nested(Box::new(Template::new(vec![actual(bytes)], None)));
    assert!(decode(vec![nested(2 << 20), actual((2 << 20) - 100)], None).is_ok());
    let equal = |bytes| {
        let (path, comparison, actual) = (vec![], Comparison::Equal, long(bytes).to_bytes());
        Query::new(vec![Operation::Compare { path, comparison, actual }]).unwrap()
    };
    assert!(decode(vec![Pattern::Where(equal(1 << 19)), actual(3 << 20)], Some(equal(1 << 18))).is_ok());
    for (patterns, query, what) in [
        (vec![nested(2 << 20), actual(2 << 20)], None, "bytes of values in a template"),
        (vec![Pattern::Where(equal(1 << 20))], None, "bytes of a template beside its values"),
        (vec![Pattern::Where(equal(1 << 19)), Pattern::Where(equal(1 << 19))], None, "beside its values"),
        (vec![Pattern::Any], Some(equal(1 << 20)), "beside its values"),
        (vec![Pattern::Class("x".repeat(1000)); 1100], None, "beside its values"),
        (vec![actual(6 << 20)], None, "bytes of a template"),
    ] {
        let error = decode(patterns, query).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}
