//! Sources of items: values, bytes, memory of any layout, functions, readers, finite and infinite.

use std::io::{self, Cursor};

use b2_core::ErrorKind;
use b2nd::{
    Amount, ArrayBuilder, Axis, Dtype, Element, NdArray, NdError, Region, RegionSource, Selection,
    SharedRegions, StridedItems, source,
};

fn built(builder: &ArrayBuilder, source: impl RegionSource) -> NdArray {
    NdArray::from_bytes(builder.to_bytes(source).unwrap()).unwrap()
}

/// 23 x 17 items, in chunks and blocks that fit none of it.
fn builder<T: Element>() -> ArrayBuilder {
    ArrayBuilder::new::<T>([23, 17]).chunks([7, 9]).blocks([3, 4])
}

fn bytes<T: Element>(values: &[T]) -> Vec<u8> {
    let mut bytes = vec![0; values.len() * T::ITEMSIZE];
    values.iter().zip(bytes.chunks_exact_mut(T::ITEMSIZE)).for_each(|(value, out)| value.write_le(out));
    bytes
}

fn same_from_everywhere<T: Element + PartialEq + std::fmt::Debug>(value: fn(usize) -> T) {
    let values: Vec<T> = (0..23 * 17).map(value).collect();
    let at = |region: &b2nd::Region<'_>, n: u64| {
        let (start, shape) = (region.start(), region.shape());
        value(((start[0] + n / shape[1]) * 17 + start[1] + n % shape[1]) as usize)
    };
    let fill = move |region: &b2nd::Region<'_>, out: &mut [T]| {
        assert_eq!((region.whole(), region.nitems()), (&[23, 17][..], out.len() as u64));
        out.iter_mut().zip(0..).for_each(|(out, n)| *out = at(region, n));
        Ok(())
    };
    for dtype in [T::DTYPE.to_owned(), T::DTYPE.replace('<', ">")] {
        let builder = ArrayBuilder::of_dtype([23, 17], Dtype::parse(&dtype).unwrap());
        let builder = builder.chunks([7, 9]).blocks([3, 4]);
        let want = builder.to_bytes(&values).unwrap();
        let array = NdArray::from_bytes(want.clone()).unwrap();
        assert_eq!(array.all().read::<Vec<T>>().unwrap(), values, "{dtype}");
        let stored = array.all().read_bytes().unwrap();
        // Backwards in memory, with gaps.
        let size = T::ITEMSIZE as isize;
        let mut turned: Vec<u8> =
            stored.chunks(T::ITEMSIZE).rev().flat_map(|item| [item, &[0xEE; 3]].concat()).collect();
        turned.extend([0; 5]);
        let strides = [-17 * (size + 3), -(size + 3)];
        let last = (23 * 17 - 1) * (T::ITEMSIZE + 3);
        let turned = StridedItems::new(&turned, [23, 17], T::ITEMSIZE, last, strides).unwrap();
        let mut lent = values.clone();
        let sources: [(&str, Box<dyn RegionSource + '_>); 9] = [
            ("vector", Box::new(values.clone())),
            ("slice", Box::new(&values[..])),
            ("lent", Box::new(&mut lent)),
            ("bytes", Box::new(&stored[..])),
            ("strided", Box::new(turned)),
            ("function", Box::new(source::from_fn(fill))),
            ("iterator", Box::new(source::items(values.clone()))),
            ("reader", Box::new(source::reader(Cursor::new(&stored)))),
            ("array", Box::new(&array)),
        ];
        for (name, source) in sources {
            assert_eq!(builder.to_bytes(source).unwrap(), want, "{dtype} from a {name}");
        }
    }
}

#[test]
fn the_same_items_make_the_same_bytes_wherever_they_come_from() {
    same_from_everywhere(|i| i as u16 * 150);
    same_from_everywhere(|i| i as f64 / 3.0);
    same_from_everywhere(|i| i as i8);
    same_from_everywhere(|i| i % 3 == 0);
}

/// Items that any number of threads read, of which one fails on request.
struct SharedSource<'a> {
    items: StridedItems<'a>,
    plain: bool,
    fails: bool,
}

impl RegionSource for SharedSource<'_> {
    fn read_region(&mut self, _: &Region<'_>, _: &mut [u8]) -> io::Result<()> {
        unreachable!("a source that can be shared is")
    }
    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(self)
    }
    fn amount(&self) -> Amount {
        self.items.amount()
    }
}

impl SharedRegions for SharedSource<'_> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        if self.fails && region.start().iter().zip(region.shape()).all(|(start, len)| start + len > 2) {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the cable is out"));
        }
        self.items.clone().read_region(region, dst)
    }
    fn is_plain(&self) -> bool {
        self.plain
    }
}

#[test]
fn shared_sources_of_any_shape_make_the_same_bytes() {
    let mut rng = b2_testkit::Rng::new(23);
    for round in 0..150 {
        let itemsize = [1, 2, 3, 8, 300][rng.below(5)];
        let ndim = 1 + rng.below(4);
        let shape: Vec<u64> = (0..ndim).map(|_| 1 + rng.below([200, 40, 12, 8][ndim - 1]) as u64).collect();
        let chunks: Vec<u32> = shape.iter().map(|&n| 1 + rng.below(n as usize) as u32).collect();
        // Often all of the last dimension, so that rows of blocks are long.
        let (mut chunks, mut blocks) = (chunks.clone(), chunks);
        for (block, chunk) in blocks.iter_mut().zip(&mut chunks) {
            *block = 1 + rng.below(*chunk as usize) as u32;
        }
        if round % 2 == 0 {
            let last = *shape.last().unwrap() as u32;
            (*chunks.last_mut().unwrap(), *blocks.last_mut().unwrap()) = (last, last);
        }
        let nbytes = shape.iter().product::<u64>() as usize * itemsize;
        let stored: Vec<u8> = (0..nbytes).map(|k| (k / 5) as u8 ^ rng.below(4) as u8).collect();
        let mut strides = vec![itemsize as isize; ndim];
        for dim in (1..ndim).rev() {
            strides[dim - 1] = strides[dim] * shape[dim] as isize;
        }
        let items = StridedItems::new(&stored, shape.clone(), itemsize, 0, strides).unwrap();
        let builder = ArrayBuilder::of_dtype(shape.clone(), Dtype::parse(&format!("|V{itemsize}")).unwrap());
        let builder = builder.chunks(chunks.clone()).blocks(blocks.clone());
        let want = builder.to_bytes(items.clone()).unwrap();
        for plain in [false, true] {
            let shared = SharedSource { items: items.clone(), plain, fails: false };
            assert!(builder.to_bytes(shared).unwrap() == want, "{shape:?} {chunks:?} {blocks:?} {plain}");
            let error = builder.to_bytes(SharedSource { items: items.clone(), plain, fails: true });
            if shape.iter().all(|&n| n > 2) {
                let error = error.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Io);
                assert!(b2_core::Report(&error).to_string().contains("the cable is out"), "{error}");
            }
        }
        // Appended along each axis, so that some chunks are partly new.
        let mut editor = NdArray::edit_bytes(want.clone()).unwrap();
        let axis = rng.below(ndim);
        editor.append(Axis(axis), SharedSource { items: items.clone(), plain: true, fails: false }).unwrap();
        let mut other = NdArray::edit_bytes(want).unwrap();
        other.append(Axis(axis), items).unwrap();
        editor.commit().unwrap();
        other.commit().unwrap();
        assert!(editor.into_bytes().unwrap() == other.into_bytes().unwrap(), "{shape:?} along {axis}");
    }
}

#[test]
fn wrong_items_are_refused() {
    let kind = |result: Result<bytes::Bytes, NdError>| result.unwrap_err().kind();
    let builder = builder::<f32>();
    assert_eq!(kind(builder.to_bytes([1.0f32; 5])), ErrorKind::Argument);
    assert_eq!(kind(builder.to_bytes(vec![1i32; 391])), ErrorKind::Argument);
    assert_eq!(kind(builder.to_bytes(vec![1.0f64; 391])), ErrorKind::Argument);
    assert_eq!(kind(builder.to_bytes(vec![0u8; 391])), ErrorKind::Argument);
    assert_eq!(kind(builder.to_bytes(source::from_fn(|_, _: &mut [u32]| Ok(())))), ErrorKind::Argument);
    assert_eq!(kind(builder.to_bytes(source::reader(&[0u8; 50][..]))), ErrorKind::Io);
    let memory = [0u8; 100];
    let strided = |offset, strides: [isize; 2]| StridedItems::new(&memory, [5, 4], 4, offset, strides);
    assert_eq!(kind(builder.to_bytes(strided(0, [16, 4]).unwrap())), ErrorKind::Argument);
    for (offset, strides) in
        [(0, [-16, 4]), (40, [16, 4]), (11, [16, -4]), (usize::MAX, [0, 0]), (0, [isize::MAX, 4])]
    {
        assert_eq!(strided(offset, strides).unwrap_err().kind(), ErrorKind::Argument, "{offset} {strides:?}");
    }
    assert!(StridedItems::new(&memory, [0, 4], 4, 0, [isize::MIN, 4]).is_ok());
    assert!(StridedItems::new(&memory, [u64::MAX, 2], 4, 0, [0, 4]).is_ok());
}

#[test]
fn lengths_come_from_the_source() {
    let array = built(&builder::<u16>(), source::value(1u16));
    let edited = |change: &dyn Fn(&mut b2nd::ArrayEditor) -> Result<(), NdError>| {
        let mut editor = NdArray::edit_bytes(builder::<u16>().to_bytes(&array).unwrap()).unwrap();
        change(&mut editor).map(|()| {
            editor.commit().unwrap();
            NdArray::from_bytes(editor.into_bytes().unwrap()).unwrap()
        })
    };
    for (axis, per) in [(0, 17), (1, 23)] {
        let shape = |array: NdArray| array.shape()[axis];
        let len = array.shape()[axis];
        let values = vec![5u16; 3 * per];
        assert_eq!(shape(edited(&|e| e.append(axis, &values)).unwrap()), len + 3);
        assert_eq!(shape(edited(&|e| e.insert(Axis(axis), 4, bytes(&values))).unwrap()), len + 3);
        assert_eq!(shape(edited(&|e| e.append(axis, &array)).unwrap()), 2 * len);
        assert_eq!(shape(edited(&|e| e.splice(axis, 1..5, array.all())).unwrap()), 2 * len - 4);
        assert!(edited(&|e| e.append(axis, &values[1..])).is_err());
        assert!(edited(&|e| e.append(axis, source::zeros())).is_err());
        assert!(edited(&|e| e.append(axis, array.all().transpose())).is_err());
        assert!(edited(&|e| e.append(axis, array.all().expand_dims(0).unwrap())).is_err());
        assert!(edited(&|e| e.append(2, &values)).is_err());
    }
    // A source without the axis is one position along it, in memory or not, few or many.
    let row = built(&ArrayBuilder::new::<u16>([17]), (0..17u16).collect::<Vec<_>>());
    let column: Vec<u8> = bytes(&(100..123u16).collect::<Vec<_>>());
    let column = StridedItems::new(&column, [23], 2, 0, [2]).unwrap();
    let grown = edited(&|e| {
        e.append(Axis(0), &row)?;
        e.delete(Axis(0), 0..1)?;
        e.insert(Axis(1), 3, column.clone())
    });
    let grown = grown.unwrap();
    assert_eq!(grown.shape(), [23, 18]);
    let items = grown.all().read::<Vec<u16>>().unwrap();
    assert_eq!(items[..5], [1, 1, 1, 100, 1]);
    assert_eq!(items[22 * 18..], [&[0, 1, 2, 122][..], &(3..17).collect::<Vec<u16>>()].concat());
    assert_eq!(source::zeros().with_length(3).amount(), Amount::Length(3));
}

#[test]
fn items_are_set_from_any_layout() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.b2nd");
    NdArray::write(&path, built(&builder::<u16>(), source::zeros()).all()).unwrap();
    let mut editor = NdArray::edit(&path).unwrap();
    // Two columns of a larger array in memory, upside down.
    let memory: Vec<u16> = (0..23 * 10).collect();
    let memory = bytes(&memory);
    let columns = StridedItems::new(&memory, [23, 2], 2, 22 * 20 + 8, [-20, 2]).unwrap();
    editor.set([0..23, 5..7], columns).unwrap();
    editor
        .set(
            2..5,
            source::from_fn(|region, out: &mut [u16]| {
                assert_eq!(region.whole(), [3, 17]);
                out.fill(7);
                Ok(())
            }),
        )
        .unwrap();
    editor.set_points([[0, 22], [0, 16]], [8u16, 9]).unwrap();
    let mask = Selection::mask_of(editor.shape(), [[false; 390].as_slice(), &[true]].concat());
    editor.set_points(mask, source::value(10u16)).unwrap();
    assert!(editor.set(0..2, [1u8; 68]).is_err());
    editor.set_bytes([0..1, 15..17], &[1, 1, 2, 2]).unwrap();
    assert!(editor.set(0..2, [1u16; 35]).is_err());
    editor.commit().unwrap();
    let items = NdArray::open(&path).unwrap().all().read::<Vec<u16>>().unwrap();
    let want: Vec<u16> = (0..23u16)
        .flat_map(|row| (0..17).map(move |col| (row, col)))
        .map(|at| match at {
            (0, 0) => 8,
            (22, 16) => 10,
            (0, 15) => 0x0101,
            (0, 16) => 0x0202,
            (2..5, _) => 7,
            (row, col @ 5..7) => (22 - row) * 10 + 4 + col - 5,
            _ => 0,
        })
        .collect();
    assert_eq!(items, want);
}

#[test]
fn structured_items_are_set_as_bytes() {
    let dtype = Dtype::parse("[('id', '<u2'), ('pos', '<f4', (3,))]").unwrap();
    let mut editor =
        NdArray::edit_bytes(ArrayBuilder::of_dtype([4], dtype).to_bytes(vec![0u8; 4 * 14]).unwrap()).unwrap();
    editor.set_field(1..3, "pos", [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    editor.set_field([..], "id", source::value(9u16)).unwrap();
    // The items of a sub-array are one: others come from memory in any layout.
    let turned = bytes(&[3.0f32, 2.0, 1.0]);
    editor.set_field(3..4, "pos", StridedItems::new(&turned, [1, 3], 4, 8, [0, -4]).unwrap()).unwrap();
    editor.set(0..1, [1u8; 14]).unwrap();
    let array = editor.snapshot().unwrap();
    assert_eq!(array.all().field("id").unwrap().read::<Vec<u16>>().unwrap(), [0x0101, 9, 9, 9]);
    let pos = array.slice(1..4).unwrap().field("pos").unwrap().read::<Vec<f32>>().unwrap();
    assert_eq!(pos, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1.0, 2.0, 3.0]);
}
