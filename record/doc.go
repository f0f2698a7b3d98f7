// Package record holds the bytes of every record and frame that Narad writes to its logs: encoders,
// decoders, checksums. It does no I/O and keeps no state.
//
// Encoders append to a slice and return it. Decoders return values that alias their input, and the named
// errors of errors.go, wrapped; they check a length against the bytes that are there before they trust
// it, so hostile input makes no allocation larger than itself.
//
// # A message in the ingress log
//
// A produce is answered when this is durable. The frame belongs to package wal, its payload to the engine.
//
//	frame (big-endian)                             payload: one produce (big-endian)
//	 0  u32  magic "NWAL"                          u8      format, 2 (or 1: without incarnation)
//	 4  u32  payload length, 1 … 16 MiB            string  topic
//	 8  u64  sequence, dense                       string  incarnation
//	16  u32  CRC-32 (IEEE) of the payload          string  key, empty = none
//	20       payload                               u32     partition
//	                                               u64     created, unix ms
//	(string: u32 length, bytes)                    string  payload
//
// A segment whose file was prepared is zeros behind its frames, and ends with a trailer of 16 bytes: "NWPREP01" and
// the u64 number of bytes before it. The other segments are frames and nothing else.
//
// # A message in a partition log
//
// Package segment stores frames of one or more records; each record is an envelope.
//
//	frame (big-endian)                             body: codec( (u32 length, envelope) × count )
//	 0  u16  magic 0xCAFE
//	 2  u8   flags, bits 0-2 codec                 envelope
//	 3  i32  record count                           u8       0x02
//	 7  i64  base offset                            uvarint  key length
//	15  i32  uncompressed size of the body                   key
//	19  i32  stored size of the body                i64 BE   committed at, unix ms
//	23  u32  CRC-32C of bytes 2 … 22 and the body            payload
//	27       body as stored
//
// The checksum leaves the magic out, so that a reader which lost its place can search for the magic and then
// prove by the checksum that it found a frame. Layout byte 0x01 of the envelope is retired and decodes as
// an error.
//
// # Files
//
//   - errors.go: the named errors
//   - wal.go: frame of the ingress log; trailer.go: trailer of a prepared segment
//   - produce.go: produce record inside it
//   - frame.go: frame of a partition log
//   - envelope.go: record inside it
package record
