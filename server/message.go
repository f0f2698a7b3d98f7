package server

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"narad/engine"
)

// The wire form of a message is one JSON object:
//
//	topic, partition, offset
//	key               absent without a key; base64 when it is not UTF-8
//	key_encoding      "base64" in that case
//	payload           a payload that is JSON is spliced in as it is, unless it nests so deeply that the answer could not
//	                  be decoded; other UTF-8 is a JSON string; the rest is base64; null for an empty one
//	payload_encoding  "base64" in that case
//	timestamp         unix seconds of the commit to the partition
//	receipt_handle    partition:offset:nonce; absent in a replay
//
// A payload that is itself a JSON string and one that is its text look the same: whoever must tell them apart
// produces objects, or bytes.

// appendMessage appends the wire form of a delivery to dst.
func appendMessage(dst []byte, d *engine.Delivery) []byte {
	dst = append(dst, `{"topic":`...)
	dst = appendString(dst, d.Topic)
	dst = append(dst, `,"partition":`...)
	dst = strconv.AppendInt(dst, int64(d.Partition), 10)
	dst = append(dst, `,"offset":`...)
	dst = strconv.AppendInt(dst, d.Offset, 10)
	dst = appendKey(dst, d.Key)
	dst = appendPayload(dst, d.Payload)
	dst = append(dst, `,"timestamp":`...)
	dst = strconv.AppendInt(dst, d.TimestampMs/1000, 10)
	if d.Handle.Nonce == 0 { // replayed: nothing is leased
		return append(dst, '}')
	}
	dst = append(dst, `,"receipt_handle":"`...)
	dst = d.Handle.Append(dst)
	return append(dst, `"}`...)
}

// messageRoom is what the wire form of a delivery needs at most, unless much in it must be escaped.
func messageRoom(d *engine.Delivery) int64 {
	return int64(256 + len(d.Topic) + 2*len(d.Key) + len(d.Payload) + len(d.Payload)/2)
}

func appendKey(dst, key []byte) []byte {
	switch {
	case len(key) == 0:
		return dst
	case utf8.Valid(key):
		return appendString(append(dst, `,"key":`...), string(key))
	default:
		dst = appendBase64(append(dst, `,"key":`...), key)
		return append(dst, `,"key_encoding":"base64"`...)
	}
}

func appendPayload(dst, payload []byte) []byte {
	dst = append(dst, `,"payload":`...)
	switch {
	case len(payload) == 0:
		return append(dst, "null"...)
	case !utf8.Valid(payload): // isJSON does not look inside strings
		dst = appendBase64(dst, payload)
		return append(dst, `,"payload_encoding":"base64"`...)
	case isJSON(payload, spliceDepthMax):
		return append(dst, payload...)
	default:
		return appendString(dst, string(payload))
	}
}

// appendString appends s, which is UTF-8, as the standard encoder does.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always encodes
			}
			return append(dst, quoted...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// plain marks the bytes that the standard encoder writes as they are, wherever they stand.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return t
}()

func appendBase64(dst, b []byte) []byte {
	dst = append(dst, '"')
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}
