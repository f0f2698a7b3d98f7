package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// Story is one fixture.
type Story struct {
	Name  string   `json:"-"` // of its file
	About string   `json:"about"`
	Needs []string `json:"needs"`
	Steps []Step   `json:"steps"`
}

// Step is one request and what it must be answered.
type Step struct {
	About   string             `json:"about"`
	Do      string             `json:"do"` // method and path
	As      *string            `json:"as"`
	Headers map[string]*string `json:"headers"`

	JSON   json.RawMessage `json:"json"`
	Text   *string         `json:"text"`
	Base64 []byte          `json:"base64"`
	Repeat *Repeat         `json:"repeat"`
	Encode string          `json:"encode"`
	Chunks bool            `json:"chunks"` // send it without its length

	Park  bool `json:"park"`
	Retry bool `json:"retry"`
	Times int  `json:"times"`

	Expect Expect            `json:"expect"`
	Save   map[string]string `json:"save"`
}

// Repeat is a body of one text many times.
type Repeat struct {
	Before string `json:"before"`
	Text   string `json:"text"`
	Times  int    `json:"times"`
	After  string `json:"after"`
}

// Expect is what an answer must be.
type Expect struct {
	Status  int                `json:"status"`
	Headers map[string]*string `json:"headers"`
	JSON    json.RawMessage    `json:"json"`
	Text    *string            `json:"text"`
	Plain   bool               `json:"plain"`
}

// Load reads all fixtures of a directory.
func Load(files fs.FS) ([]Story, error) {
	names, err := fs.Glob(files, "*.json")
	if err != nil {
		return nil, err
	}
	var stories []Story
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		s := Story{Name: strings.TrimSuffix(path.Base(name), ".json")}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for i, step := range s.Steps {
			if step.Expect.Status == 0 || !strings.Contains(step.Do, " /") {
				return nil, fmt.Errorf("%s: step %d needs a do of method and path, and a status to expect", name, i)
			}
		}
		stories = append(stories, s)
	}
	return stories, nil
}
