package workload

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// caseVersion is the version of the file format of a [Case].
const caseVersion = 1

// Case is a run that can be repeated: its seed, or its choices. Written as JSON it is the plan file of narad-sim.
//
// Choices mean what the code makes of them: a case repeats its failure on the source it was found on and on source that draws
// the same choices. On other source it is a run like any other.
type Case struct {
	Version     int     `json:"version"`
	Profile     Profile `json:"profile"`
	Seed        uint64  `json:"seed"`             // also decides how tasks are scheduled
	Limits      *Limits `json:"limits,omitempty"` // nil: none
	Fingerprint string  `json:"fingerprint"`
	Error       string  `json:"error"`
	Commit      string  `json:"commit,omitempty"` // of the source it failed on
	Hash        string  `json:"hash,omitempty"`   // of that run
	Plan        string  `json:"plan,omitempty"`   // what the choices say, for readers
	Choices     Choices `json:"choices"`          // null: those of the seed
}

// NewCase returns the case of a run with these options that gave r.
func NewCase(o Options, r Result) Case {
	c := Case{Version: caseVersion, Profile: o.Profile, Seed: o.Seed, Limits: o.Limits, Choices: o.Choices}
	if r.Choices != nil {
		c.Choices = r.Choices
	}
	c.saw(r)
	return c
}

func (c *Case) saw(r Result) {
	c.Fingerprint, c.Hash, c.Plan, c.Error = Fingerprint(r.Err), fmt.Sprintf("%016x", r.Hash), r.Plan, ""
	if r.Err != nil {
		c.Error = r.Err.Error()
	}
}

// Options returns what repeats the case.
func (c *Case) Options() Options {
	return Options{Seed: c.Seed, Profile: c.Profile, Choices: c.Choices, Limits: c.Limits}
}

// Write writes the case as JSON.
func (c *Case) Write(w io.Writer) error {
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// ReadCase reads what Write wrote.
func ReadCase(r io.Reader) (c Case, err error) {
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("workload: not a plan: %w", err)
	}
	if c.Version != caseVersion {
		return c, fmt.Errorf("workload: plan of version %d, this program reads version %d", c.Version, caseVersion)
	}
	for _, p := range Profiles() {
		if p == c.Profile {
			return c, nil
		}
	}
	return c, fmt.Errorf("workload: plan of the unknown profile %q", c.Profile)
}

// Choices are written as base64 of deflated varints, in which a 0 is followed by how many more follow it.
type Choices []uint32

// choicesMax bounds how many choices are read from a file.
const choicesMax = 1 << 26

// MarshalJSON encodes the choices; nil becomes null.
func (c Choices) MarshalJSON() ([]byte, error) {
	if c == nil {
		return []byte("null"), nil
	}
	var raw []byte
	for i := 0; i < len(c); i++ {
		raw = binary.AppendUvarint(raw, uint64(c[i]))
		if c[i] != 0 {
			continue
		}
		more := 0
		for i+1 < len(c) && c[i+1] == 0 {
			more, i = more+1, i+1
		}
		raw = binary.AppendUvarint(raw, uint64(more))
	}
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return json.Marshal(base64.StdEncoding.EncodeToString(packed.Bytes()))
}

// UnmarshalJSON decodes the choices.
func (c *Choices) UnmarshalJSON(b []byte) error {
	var text *string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	if text == nil {
		*c = nil
		return nil
	}
	packed, err := base64.StdEncoding.DecodeString(*text)
	if err != nil {
		return err
	}
	raw, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), 5*choicesMax))
	if err != nil {
		return err
	}
	*c, err = unpackChoices(raw)
	return err
}

var errChoices = errors.New("workload: damaged choices")

func unpackChoices(raw []byte) (Choices, error) {
	list := Choices{}
	for len(raw) > 0 {
		v, n := binary.Uvarint(raw)
		if n <= 0 || v >= 1<<32 || len(list) >= choicesMax {
			return nil, errChoices
		}
		raw = raw[n:]
		list = append(list, uint32(v))
		if v != 0 {
			continue
		}
		more, n := binary.Uvarint(raw)
		if n <= 0 || more > uint64(choicesMax-len(list)) {
			return nil, errChoices
		}
		raw = raw[n:]
		list = append(list, make(Choices, more)...)
	}
	return list, nil
}
