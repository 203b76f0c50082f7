//! Floating numbers as truth values: not 0 is true.

/// See the module.
pub(super) trait Truth: PartialEq + Copy {
    /// 0 or 1.
    fn truth(value: bool) -> Self;

    fn is_true(self) -> bool {
        self != Self::truth(false)
    }
}

impl Truth for f32 {
    fn truth(value: bool) -> f32 {
        value.into()
    }
}

impl Truth for f64 {
    fn truth(value: bool) -> f64 {
        value.into()
    }
}
