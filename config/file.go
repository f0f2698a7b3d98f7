package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// entry is one value of the file.
type entry struct {
	key   string // "http.addr"
	value json.RawMessage
	line  int
}

// parseFile takes a JSON object of objects apart. A key that is given twice and a value that is no JSON are errors.
func parseFile(file []byte) ([]entry, error) {
	p := fileParser{src: file, dec: json.NewDecoder(bytes.NewReader(file)), seen: map[string]bool{}}
	p.dec.UseNumber()
	if err := p.top(); err != nil {
		return nil, err
	}
	return p.entries, nil
}

type fileParser struct {
	src     []byte
	dec     *json.Decoder
	seen    map[string]bool
	entries []entry
}

func (p *fileParser) top() error {
	token, err := p.dec.Token()
	if err != nil {
		return p.at(err)
	}
	if token != json.Delim('{') {
		return p.at(errors.New("a configuration file is a JSON object"))
	}
	if err := p.object(""); err != nil {
		return err
	}
	if _, err := p.dec.Token(); !errors.Is(err, io.EOF) {
		return p.at(errors.New("there is more behind the JSON object"))
	}
	return nil
}

// object reads the members of an object whose brace has been read. The keys of the sections are dots deep: "http.addr".
func (p *fileParser) object(prefix string) error {
	for p.dec.More() {
		token, err := p.dec.Token()
		if err != nil {
			return p.at(err)
		}
		name, _ := token.(string)
		key, line := prefix+name, p.line()
		if p.seen[key] {
			return p.at(fmt.Errorf("%s is given twice", key))
		}
		p.seen[key] = true
		if prefix == "" && isSection(name) {
			open, err := p.dec.Token()
			if err != nil {
				return p.at(err)
			}
			if open != json.Delim('{') {
				return p.at(fmt.Errorf("%s must be an object", name))
			}
			if err := p.object(name + "."); err != nil {
				return err
			}
			continue
		}
		var raw json.RawMessage
		if err := p.dec.Decode(&raw); err != nil {
			return p.at(err)
		}
		p.entries = append(p.entries, entry{key, raw, line})
	}
	if _, err := p.dec.Token(); err != nil {
		return p.at(err)
	}
	return nil
}

func (p *fileParser) line() int {
	return 1 + bytes.Count(p.src[:p.dec.InputOffset()], []byte("\n"))
}

func (p *fileParser) at(err error) error {
	if errors.Is(err, io.EOF) {
		err = errors.New("it ends too early")
	}
	var syntax *json.SyntaxError
	line := p.line()
	if errors.As(err, &syntax) {
		line = 1 + bytes.Count(p.src[:min(int(syntax.Offset), len(p.src))], []byte("\n"))
	}
	return fmt.Errorf("line %d: %w", line, err)
}

func isSection(name string) bool {
	for _, s := range settings {
		if strings.HasPrefix(s.key, name+".") {
			return true
		}
	}
	return false
}

// textOf returns the text of a JSON value of the kind, or what it should have been.
func (k kind) textOf(raw json.RawMessage) (value, wrong string) {
	first := raw[0]
	switch k {
	case numberKind:
		if first == '-' || first >= '0' && first <= '9' {
			return string(raw), ""
		}
		return "", "a number"
	case booleanKind:
		if first == 't' || first == 'f' {
			return string(raw), ""
		}
		return "", "true or false"
	case listKind:
		if first == '[' {
			return listText(raw)
		}
	}
	if first != '"' {
		return "", k.String()
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return "", k.String()
	}
	return value, ""
}

func (k kind) String() string {
	return [...]string{textKind: "a string", numberKind: "a number", booleanKind: "true or false", listKind: "an array or a string with commas"}[k]
}

// listText joins an array of strings or numbers.
func listText(raw json.RawMessage) (value, wrong string) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return "", listKind.String()
	}
	words := make([]string, len(items))
	for i, item := range items {
		if item[0] == '"' {
			if err := json.Unmarshal(item, &words[i]); err != nil || strings.Contains(words[i], ",") {
				return "", listKind.String()
			}
			continue
		}
		var n json.Number
		if err := json.Unmarshal(item, &n); err != nil {
			return "", listKind.String()
		}
		words[i] = n.String()
	}
	return strings.Join(words, ","), ""
}
