use bytes::{Buf, BufMut, Bytes};
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

use crate::wire;

/// One request of an append stream: all but the records, and these as they are on the wire. The
/// two are one message, as fields of a message may be in any order.
pub(crate) struct Outgoing {
    pub head: wire::AppendRequest,
    pub records: Bytes,
}

/// Encodes requests of appends. Their records have been encoded when they were accepted.
pub(crate) struct AppendCodec;

/// How many bytes are gathered before they are handed to HTTP/2, and how large the buffer is.
const SETTINGS: (usize, usize) = (64 << 10, 128 << 10);

impl Codec for AppendCodec {
    type Encode = Outgoing;
    type Decode = wire::AppendResponse;
    type Encoder = AppendEncoder;
    type Decoder = ProstDecoder<wire::AppendResponse>;

    fn encoder(&mut self) -> AppendEncoder {
        AppendEncoder
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstDecoder::new(BufferSettings::default())
    }
}

pub(crate) struct AppendEncoder;

impl Encoder for AppendEncoder {
    type Item = Outgoing;
    type Error = Status;

    fn encode(&mut self, item: Outgoing, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.reserve(item.head.encoded_len() + item.records.len());
        item.head.encode(to).map_err(|e| Status::internal(e.to_string()))?;
        to.put(item.records);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(SETTINGS.0, SETTINGS.1)
    }
}

/// Hands messages through as they are, so that code for calls is not made anew for each method.
#[derive(Clone, Copy)]
pub(crate) struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = BytesCodec;
    type Decoder = BytesCodec;

    fn encoder(&mut self) -> BytesCodec {
        *self
    }

    fn decoder(&mut self) -> BytesCodec {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// The key of a field of records in a request: field 10, of bytes with their length.
const RECORDS: u8 = 10 << 3 | 2;

/// Adds a record to those of a request.
pub(crate) fn add_record(record: &wire::Record, to: &mut impl BufMut) {
    to.put_u8(RECORDS);
    record.encode_length_delimited(to).expect("the buffer grows");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_records_are_one_message() {
        let record = |offset| wire::Record { offset, value: Some(Bytes::from("v")), ..Default::default() };
        let head = wire::AppendRequest { log: "orders".into(), expected_end: Some(7), ..Default::default() };
        let mut encoded = head.encode_to_vec();
        add_record(&record(1), &mut encoded);
        add_record(&record(2), &mut encoded);
        let whole = wire::AppendRequest { records: vec![record(1), record(2)], ..head };
        assert_eq!(wire::AppendRequest::decode(&*encoded).unwrap(), whole);
    }
}
