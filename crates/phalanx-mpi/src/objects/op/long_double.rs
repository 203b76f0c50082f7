//! C's `long double`, which Rust does not have: on x86 the processor's 80-bit numbers in 16 bytes, on Apple's ARM
//! processors `double`. Elsewhere it is emulated by C compilers, and refused here.

#[cfg(all(target_vendor = "apple", target_arch = "aarch64"))]
pub type LongDouble = f64;
#[cfg(target_arch = "x86_64")]
pub use x87::LongDouble;

#[cfg(target_arch = "x86_64")]
mod x87 {
    use std::arch::asm;

    /// As it lies in memory; the last six bytes have no meaning.
    #[derive(Clone, Copy)]
    #[repr(C, align(16))]
    pub struct LongDouble([u8; 16]);

    macro_rules! operator {
        ($trait:ident, $method:ident, $instruction:literal) => {
            impl std::ops::$trait for LongDouble {
                type Output = LongDouble;

                #[inline]
                fn $method(self, other: LongDouble) -> LongDouble {
                    let mut result = LongDouble([0; 16]);
                    // SAFETY: reads two numbers, writes one, leaves the register stack empty as it was.
                    unsafe {
                        asm!(
                            "fld tbyte ptr [{left}]", "fld tbyte ptr [{right}]", $instruction, "fstp tbyte ptr [{result}]",
                            left = in(reg) &self, right = in(reg) &other, result = in(reg) &mut result,
                            out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                            out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                            options(nostack),
                        );
                    }
                    result
                }
            }
        };
    }

    impl crate::objects::op::truth::Truth for LongDouble {
        fn truth(value: bool) -> LongDouble {
            let mut bytes = [0; 16];
            if value {
                // 1: its highest digit, and the exponent's bias.
                bytes[7..10].copy_from_slice(&[0x80, 0xff, 0x3f]);
            }
            LongDouble(bytes)
        }
    }

    operator!(Add, add, "faddp st(1), st");
    operator!(Sub, sub, "fsubp st(1), st");
    operator!(Mul, mul, "fmulp st(1), st");

    impl PartialEq for LongDouble {
        fn eq(&self, other: &LongDouble) -> bool {
            self.partial_cmp(other) == Some(std::cmp::Ordering::Equal)
        }
    }

    impl PartialOrd for LongDouble {
        #[inline]
        fn partial_cmp(&self, other: &LongDouble) -> Option<std::cmp::Ordering> {
            let (unordered, below, equal): (u8, u8, u8);
            // SAFETY: reads two numbers, leaves the register stack empty as it was.
            unsafe {
                asm!(
                    "fld tbyte ptr [{right}]", "fld tbyte ptr [{left}]", "fucomip st, st(1)", "fstp st(0)",
                    "setp {unordered}", "setb {below}", "sete {equal}",
                    left = in(reg) self, right = in(reg) other,
                    unordered = out(reg_byte) unordered, below = out(reg_byte) below, equal = out(reg_byte) equal,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack, readonly),
                );
            }
            match (unordered != 0, below != 0, equal != 0) {
                (true, ..) => None,
                (_, true, _) => Some(std::cmp::Ordering::Less),
                (_, _, true) => Some(std::cmp::Ordering::Equal),
                _ => Some(std::cmp::Ordering::Greater),
            }
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::LongDouble;
    use std::arch::asm;
    use std::cmp::Ordering;

    fn number(value: f64) -> LongDouble {
        // SAFETY: any bytes are a number.
        let mut number = unsafe { std::mem::zeroed::<LongDouble>() };
        // SAFETY: reads one number, writes the other.
        unsafe { asm!("fld qword ptr [{}]", "fstp tbyte ptr [{}]", in(reg) &value, in(reg) &mut number) };
        number
    }

    fn value(number: LongDouble) -> f64 {
        let mut value = 0.0;
        // SAFETY: reads one number, writes the other.
        unsafe { asm!("fld tbyte ptr [{}]", "fstp qword ptr [{}]", in(reg) &number, in(reg) &mut value) };
        value
    }

    #[test]
    fn arithmetic_has_more_bits_than_double_has() {
        let (one, small) = (number(1.0), number(f64::EPSILON / 16.0));
        assert_eq!(value((one + small - one) * number(16.0)), f64::EPSILON);
        assert_eq!(value(number(7.0) - number(2.5)), 4.5);
    }

    #[test]
    fn numbers_are_ordered_and_what_is_none_is_not() {
        let compare = |one: f64, other: f64| number(one).partial_cmp(&number(other));
        assert_eq!(compare(1.0, 2.0), Some(Ordering::Less));
        assert_eq!(compare(2.0, 1.0), Some(Ordering::Greater));
        assert_eq!(compare(-1.0, -1.0), Some(Ordering::Equal));
        assert_eq!((compare(1.0, f64::NAN), compare(f64::NAN, f64::NAN)), (None, None));
    }
}
