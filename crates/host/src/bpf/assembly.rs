//! Writing a program: instructions, and labels that jumps lead to.

use std::os::fd::AsRawFd;

use super::Map;

/// An instruction:
///
/// ```text
///   byte 0   1                  2..4     4..8
///        op  source:4 target:4  offset   constant
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Instruction {
    op: u8,
    registers: u8,
    offset: i16,
    constant: i32,
}

#[cfg(test)]
impl Instruction {
    /// Operation, target, source, offset, constant: for those who carry a program out by hand.
    pub(crate) fn parts(self) -> (u8, usize, usize, i16, i32) {
        let (target, source) = (usize::from(self.registers & 15), usize::from(self.registers >> 4));
        (self.op, target, source, self.offset, self.constant)
    }
}

/// r0 to r10: 0 what a call returns, 1 to 5 its arguments and then gone, 6 to 9 kept, 10 the top of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct R(pub(crate) u8);

/// How wide a load or store is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    /// 8 bits.
    Byte = 0x10,
    /// 16 bits.
    Half = 0x08,
    /// 32 bits.
    Word = 0x00,
    /// 64 bits.
    Double = 0x18,
}

/// What is done to a register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sum {
    Add = 0x00,
    Multiply = 0x20,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    Set = 0xb0,
}

/// When it is jumped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    Equal = 0x10,
    NotEqual = 0x50,
    /// Unsigned.
    AtLeast = 0x30,
}

/// What programs here call, by the numbers of linux/bpf.h.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Helper {
    /// (map, key) -> value or null.
    Lookup = 1,
    /// (packet, offset, to, length) -> 0 or an error; also where the bytes are in fragments.
    LoadBytes = 26,
}

/// A program being written. Jumps name labels; each must be placed behind the jump, since the kernel's verifier wants no loops.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    code: Vec<Instruction>,
    jumps: Vec<(usize, &'static str)>,
    labels: Vec<(&'static str, usize)>,
}

impl Assembly {
    fn push(&mut self, op: u8, target: R, source: R, offset: i16, constant: i32) {
        self.code.push(Instruction { op, registers: source.0 << 4 | target.0, offset, constant });
    }

    /// `target = target SUM constant`.
    pub(crate) fn sum(&mut self, sum: Sum, target: R, constant: i32) {
        self.push(sum as u8 | 0x07, target, R(0), 0, constant);
    }

    /// `target = target SUM source`.
    pub(crate) fn sum_register(&mut self, sum: Sum, target: R, source: R) {
        self.push(sum as u8 | 0x0f, target, source, 0, 0);
    }

    /// From the byte order of the wire, 16 bits.
    pub(crate) fn wire_order_16(&mut self, target: R) {
        self.push(0xdc, target, R(0), 0, 16);
    }

    /// `target = *(source + offset)`.
    pub(crate) fn load(&mut self, width: Width, target: R, source: R, offset: i16) {
        self.push(width as u8 | 0x61, target, source, offset, 0);
    }

    /// `*(target + offset) = source`.
    pub(crate) fn store(&mut self, width: Width, target: R, offset: i16, source: R) {
        self.push(width as u8 | 0x63, target, source, offset, 0);
    }

    /// `target =` the map behind a descriptor. Two places long.
    pub(crate) fn map(&mut self, target: R, map: &Map) {
        self.push(0x18, target, R(1), 0, map.fd.as_raw_fd());
        self.push(0x00, R(0), R(0), 0, 0);
    }

    /// Calls the kernel; the arguments are r1 to r5.
    pub(crate) fn call(&mut self, helper: Helper) {
        self.push(0x85, R(0), R(0), 0, helper as i32);
    }

    /// Goes on at `label` if `register WHEN constant`.
    pub(crate) fn jump_if(&mut self, register: R, when: When, constant: i32, label: &'static str) {
        self.jumps.push((self.code.len(), label));
        self.push(when as u8 | 0x05, register, R(0), 0, constant);
    }

    /// Goes on at `label` if the two differ.
    pub(crate) fn jump_if_other(&mut self, register: R, other: R, label: &'static str) {
        self.jumps.push((self.code.len(), label));
        self.push(When::NotEqual as u8 | 0x0d, register, other, 0, 0);
    }

    /// Goes on at `label`.
    pub(crate) fn jump(&mut self, label: &'static str) {
        self.jumps.push((self.code.len(), label));
        self.push(0x05, R(0), R(0), 0, 0);
    }

    /// Puts so many bytes of the packet (`struct __sk_buff` in r6) from the place in r7 on onto the stack. Of a packet that has not
    /// so many it goes on at `label`. r0 to r5 are gone.
    pub(crate) fn packet_bytes(&mut self, to: i16, count: i32, label: &'static str) {
        self.sum_register(Sum::Set, R(1), R(6));
        self.sum_register(Sum::Set, R(2), R(7));
        self.sum_register(Sum::Set, R(3), R(10));
        self.sum(Sum::Add, R(3), i32::from(to));
        self.sum(Sum::Set, R(4), count);
        self.call(Helper::LoadBytes);
        self.jump_if(R(0), When::NotEqual, 0, label);
    }

    /// Here is `label`.
    pub(crate) fn label(&mut self, label: &'static str) {
        self.labels.push((label, self.code.len()));
    }

    /// Ends the program with this result.
    pub(crate) fn exit(&mut self, result: i32) {
        self.sum(Sum::Set, R(0), result);
        self.push(0x95, R(0), R(0), 0, 0);
    }

    /// The program with its jumps' distances filled in.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.labels.iter().find(|(name, _)| *name == label).map(|(_, to)| *to);
            let distance = to.and_then(|to| to.checked_sub(from + 1));
            let offset = distance.and_then(|distance| i16::try_from(distance).ok());
            self.code[from].offset = offset.expect("every jump leads forward to a label that is there");
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against `tools/bpf` and the kernel's own macros (linux/filter.h): BPF_MOV64_IMM is b7, BPF_LDX_MEM(BPF_W) 61, and so on.
    #[test]
    fn instructions_are_the_kernels() {
        let mut it = Assembly::default();
        it.sum(Sum::Set, R(6), -2);
        it.sum_register(Sum::Add, R(2), R(10));
        it.load(Width::Word, R(2), R(6), 12);
        it.store(Width::Double, R(10), -8, R(3));
        it.jump_if(R(2), When::Equal, 7, "end");
        it.jump("end");
        it.call(Helper::LoadBytes);
        it.label("end");
        it.wire_order_16(R(4));
        it.exit(-1);
        let bytes: Vec<[u8; 8]> = it
            .finish()
            .iter()
            .map(|i| {
                let (o, c) = (i.offset.to_le_bytes(), i.constant.to_le_bytes());
                [i.op, i.registers, o[0], o[1], c[0], c[1], c[2], c[3]]
            })
            .collect();
        assert_eq!(
            bytes,
            [
                [0xb7, 0x06, 0, 0, 0xfe, 0xff, 0xff, 0xff],
                [0x0f, 0xa2, 0, 0, 0, 0, 0, 0],
                [0x61, 0x62, 12, 0, 0, 0, 0, 0],
                [0x7b, 0x3a, 0xf8, 0xff, 0, 0, 0, 0],
                [0x15, 0x02, 2, 0, 7, 0, 0, 0],
                [0x05, 0x00, 1, 0, 0, 0, 0, 0],
                [0x85, 0x00, 0, 0, 26, 0, 0, 0],
                [0xdc, 0x04, 0, 0, 16, 0, 0, 0],
                [0xb7, 0x00, 0, 0, 0xff, 0xff, 0xff, 0xff],
                [0x95, 0x00, 0, 0, 0, 0, 0, 0],
            ]
        );
    }

    #[test]
    #[should_panic(expected = "leads forward")]
    fn a_jump_to_nowhere_is_a_broken_promise() {
        let mut it = Assembly::default();
        it.label("back");
        it.jump("back");
        it.finish();
    }
}
