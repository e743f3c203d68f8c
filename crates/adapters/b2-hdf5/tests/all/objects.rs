//! The objects of files as HDF5 has them.

use std::io;
use std::sync::Arc;

use b2_core::Limits;
use b2_frame::ReadAt;
use b2_hdf5::{Codec, File, ObjectKind, StoredLayout, Target, Type, Writer};
use b2nd::{ArrayBuilder, Dtype, NdArray};
use bytes::Bytes;

/// A file with two groups, and an array in chunks with gzip in one of them.
fn written() -> File {
    let items: Vec<u8> = (0..30_u32).flat_map(u32::to_le_bytes).collect();
    let builder = ArrayBuilder::of_dtype([5, 6], Dtype::parse("<u4").unwrap());
    let builder = builder.chunks([2, 4]).vlmetalayer("n", vec![7]);
    let array = NdArray::from_bytes(builder.to_bytes(&items[..]).unwrap()).unwrap();
    let mut writer = Writer::new(io::Cursor::new(Vec::new()), "memory").unwrap();
    writer.group("/zeta", &[]).unwrap();
    writer.array("/alpha/x", &array, Codec::Gzip(6)).unwrap();
    let bytes: Arc<dyn ReadAt> = Arc::new(Bytes::from(writer.finish().unwrap().0.into_inner()));
    File::from_reader(bytes, "memory", &Limits::default()).unwrap()
}

/// The address of what a name in a group leads to.
fn object(file: &File, group: u64, name: &str) -> u64 {
    match file.objects().unwrap().link(group, name, "/").unwrap() {
        Some(Target::Object(address)) => address,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn links_lead_to_objects() {
    let file = written();
    let objects = file.objects().unwrap();
    assert_eq!(objects.kind(objects.root(), "/").unwrap(), ObjectKind::Group);
    let (links, _) = objects.links(objects.root(), "/").unwrap();
    let mut names: Vec<&str> = links.iter().map(|(name, _)| name.as_str()).collect();
    names.sort();
    assert_eq!(names, ["alpha", "zeta"]);
    assert_eq!(objects.link(objects.root(), "none", "/").unwrap(), None);
    let alpha = object(&file, objects.root(), "alpha");
    let data = object(&file, alpha, "x");
    assert_eq!(objects.kind(data, "x").unwrap(), ObjectKind::DataSet);
    assert_eq!((objects.user_block(), objects.address_size()), (0, 8));
    assert!(objects.kind(3, "nothing").is_err());
    assert!(
        objects.named_type(data, "x").is_ok(),
        "the type of a data set is none with a name, but can be read"
    );
}

#[test]
fn items_are_read_as_they_are_stored() {
    let file = written();
    let objects = file.objects().unwrap();
    let address = object(&file, object(&file, objects.root(), "alpha"), "x");
    let described = objects.description(address, "x").unwrap();
    assert!(matches!(described.kind, Type::Int { size: 4, is_signed: false, is_big: false, .. }));
    assert_eq!(described.shape.as_deref(), Some(&[5, 6][..]));
    assert_eq!(described.layout, StoredLayout::Chunked(vec![2, 4]));
    assert_eq!(described.filters.iter().map(|filter| filter.id).collect::<Vec<_>>(), [2, 1]);
    let data = objects.data_set(address, "x").unwrap();
    assert_eq!(data.dtype().unwrap().as_str(), "|V4");
    let mut items = vec![0; 8];
    data.read_box(&[1, 2], &[1, 2], &mut items).unwrap();
    assert_eq!(items, [8_u32.to_le_bytes(), 9_u32.to_le_bytes()].concat());
    let chunks = data.stored_chunks().unwrap();
    assert_eq!(
        chunks.iter().map(|chunk| chunk.offset.clone()).collect::<Vec<_>>(),
        [[0, 0], [0, 4], [2, 0], [2, 4], [4, 0], [4, 4]]
    );
    let bytes = objects.bytes(chunks[0].position, chunks[0].nbytes, "x").unwrap();
    assert_eq!(bytes[0], 0x78, "a stream of zlib");
    assert!(objects.bytes(u64::MAX - 1, 8, "x").is_err());
    let attrs = objects.attributes(address, "x").unwrap();
    let found = attrs.iter().find(|attr| attr.name == "n").unwrap();
    assert_eq!((found.data[0], found.shape.as_deref()), (7, Some(&[][..])));
}
