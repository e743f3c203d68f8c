//! Arrays: selections against a plain model.

use b2_chunk::CParams;
use b2nd::{ArrayBuilder, Dtype, NdArray, Selection};

use crate::checks::filled;
use crate::dice::{Dice, Params};
use crate::mutate;

/// The input holds shapes, then selections. Each selection is applied to the result of the previous one.
pub(crate) fn slices(data: &[u8]) {
    let mut params = Params::new(data);
    let nd = params.up_to(4);
    let itemsize = 1 + params.up_to(8);
    let mut shape: Vec<u64> = (0..nd).map(|_| u64::from(params.u8() % 12)).collect();
    // With many dimensions, use only a few chunks and blocks along each, so that an input stays fast.
    let few = |length: u32| if nd > 2 { length.div_ceil(3) } else { 1 };
    let chunks: Vec<u32> =
        shape.iter().map(|length| few(*length as u32).max(1 + u32::from(params.u8() % 14))).collect();
    let blocks: Vec<u32> =
        chunks.iter().map(|chunk| few(*chunk).max(1 + u32::from(params.u8()) % chunk)).collect();
    let nitems: u64 = shape.iter().product();
    let mut dice = Dice::new(u64::from(params.u16()));
    // Make all items as different as their size allows.
    let items: Vec<u8> =
        (0..nitems).flat_map(|i| (i + 1).to_le_bytes().into_iter().cycle().take(itemsize)).collect();
    let dtype = Dtype::parse(&format!("|V{itemsize}")).expect("a dtype");
    let mut builder = ArrayBuilder::of_dtype(shape.clone(), dtype).chunks(chunks).blocks(blocks);
    if let Some(cparams) = mutate::parameters(itemsize, &mut dice) {
        // Leave out lossy filters.
        let filters: Vec<_> = cparams.filters().into_iter().filter(|slot| slot.id.0 != 4).collect();
        if let Ok(cparams) = cparams.to_builder().filters(filters).blocksize(0).build() {
            let _: &CParams = &cparams;
            builder = builder.compression(cparams);
        }
    }
    let frame = match builder.to_bytes(&items[..]) {
        Ok(frame) => frame,
        Err(error) => panic!("{error}"),
    };
    let array = NdArray::from_bytes(frame).expect("an array of our own");
    let mut view = array.all();
    // The position in the array of each item of the view.
    let mut places: Vec<usize> = (0..nitems as usize).collect();
    for _ in 0..3 {
        let selection: Vec<Selection> =
            (0..params.up_to(shape.len() + 1)).map(|_| one(&mut params)).collect();
        match (view.slice(&selection), model(&shape, &places, &selection)) {
            (Ok(slice), Some((new_shape, new_places))) => {
                view = slice;
                (shape, places) = (new_shape, new_places);
            }
            (Err(error), None) => drop(error.to_string()),
            (Ok(_), None) => panic!("accepted: {selection:?} of {shape:?}"),
            (Err(error), Some(_)) => panic!("{error}: {selection:?} of {shape:?}"),
        }
        assert_eq!(view.shape(), shape);
        assert_eq!(view.nbytes() as usize, places.len() * itemsize);
        let wanted: Vec<u8> =
            places.iter().flat_map(|at| &items[at * itemsize..(at + 1) * itemsize]).copied().collect();
        let got = filled(wanted.len(), |dst| view.read_bytes_into(dst));
        assert!(got.as_deref() == Ok(&wanted[..]), "{selection:?}: other items: {:?}", got.err());
        if params.is_empty() {
            return;
        }
    }
}

fn one(params: &mut Params<'_>) -> Selection {
    let number = |params: &mut Params<'_>| i64::from(params.u8() as i8) / 4;
    let some = |params: &mut Params<'_>| (!params.u8().is_multiple_of(3)).then(|| number(params));
    match params.u8() % 8 {
        0 => Selection::Index(number(params)),
        1 => Selection::Ellipsis,
        2 => Selection::List((0..params.up_to(9)).map(|_| number(params)).collect()),
        3 => {
            Selection::from((0..params.up_to(12)).map(|_| params.u8().is_multiple_of(2)).collect::<Vec<_>>())
        }
        _ => {
            let (start, stop) = (some(params), some(params));
            Selection::Range { start, stop, step: number(params) / 4 + 1 }
        }
    }
}

/// The shape and positions that NumPy would return, or `None` if it would raise an error.
fn model(shape: &[u64], places: &[usize], selection: &[Selection]) -> Option<(Vec<u64>, Vec<usize>)> {
    let ellipses = selection.iter().filter(|select| **select == Selection::Ellipsis).count();
    let named = selection.len() - ellipses;
    if ellipses > 1 || named > shape.len() {
        return None;
    }
    // For each dimension of the old shape: the selected positions, and whether the dimension is kept.
    let mut along: Vec<(Vec<usize>, bool)> = Vec::new();
    for select in selection {
        let length = shape.get(along.len()).copied().unwrap_or_default() as i64;
        match select {
            Selection::Ellipsis => {
                for length in &shape[along.len()..][..shape.len() - named] {
                    along.push(((0..*length as usize).collect(), true));
                }
            }
            Selection::Index(index) => along.push((vec![wrap(*index, length)?], false)),
            Selection::Range { start, stop, step } => {
                along.push((range(*start, *stop, *step, length)?, true));
            }
            Selection::List(list) => {
                let list: Option<Vec<usize>> = list.iter().map(|index| wrap(*index, length)).collect();
                along.push((list?, true));
            }
            Selection::Mask { marks, .. } => {
                if marks.len() as i64 != length {
                    return None;
                }
                let marked = marks.iter().enumerate().filter(|(_, mark)| **mark).map(|(at, _)| at);
                along.push((marked.collect(), true));
            }
            other => unreachable!("{other:?} is not made here"),
        }
    }
    for length in &shape[along.len()..] {
        along.push(((0..*length as usize).collect(), true));
    }
    let mut chosen = vec![0];
    for ((positions, _), length) in along.iter().zip(shape) {
        chosen = chosen
            .iter()
            .flat_map(|base| positions.iter().map(move |at| base * *length as usize + at))
            .collect();
    }
    let new = along.iter().filter(|(_, stays)| *stays).map(|(positions, _)| positions.len() as u64).collect();
    Some((new, chosen.into_iter().map(|at| places[at]).collect()))
}

fn wrap(index: i64, length: i64) -> Option<usize> {
    let at = if index < 0 { index + length } else { index };
    (0..length).contains(&at).then_some(at as usize)
}

fn range(start: Option<i64>, stop: Option<i64>, step: i64, length: i64) -> Option<Vec<usize>> {
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let clip = |at: i64| (if at < 0 { at + length } else { at }).clamp(low, high);
    let first = start.map_or(if step > 0 { low } else { high }, clip);
    let last = stop.map_or(if step > 0 { high } else { low }, clip);
    let before_end = |at: &i64| if step > 0 { *at < last } else { *at > last };
    let positions = std::iter::successors(Some(first), |at| Some(at + step)).take_while(before_end);
    (step != 0).then(|| positions.map(|at| at as usize).collect())
}
