package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is the JSON form of a value.
type kind int

const (
	textKind    kind = iota // a string
	numberKind              // an integer
	booleanKind             // true or false
	listKind                // an array, or a string with commas
)

// setting is one key: its names, its range, and how it gets into a Config.
type setting struct {
	key     string
	env     string // "": not in the environment
	kind    kind
	initial string // default, as text
	allowed string
	doc     string
	set     func(c *Config, text string) bool // false: not allowed
	get     func(c *Config) string
	missing string // what this version does not have; the key then takes its default only
}

// needs marks the key of something that this version does not have.
func (s setting) needs(what string) setting {
	s.missing = what
	return s
}

// also appends a sentence to the documentation.
func (s setting) also(doc string) setting {
	s.doc = strings.TrimSpace(s.doc + " " + doc)
	return s
}

type integer interface{ ~int | ~int64 }

// number is an integer from least to most, or zero when zero has a meaning of its own.
func number[T integer](key, env string, field func(*Config) *T, initial, least, most T, zero string) setting {
	allowed := fmt.Sprintf("a whole number from %d to %d", least, most)
	if zero != "" {
		allowed = fmt.Sprintf("0 (%s), or a whole number from %d to %d", zero, least, most)
	}
	return setting{
		key: key, env: env, kind: numberKind, initial: fmt.Sprint(initial), allowed: allowed,
		set: func(c *Config, text string) bool {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || (n != 0 || zero == "") && (n < int64(least) || n > int64(most)) {
				return false
			}
			*field(c) = T(n)
			return true
		},
		get: func(c *Config) string { return fmt.Sprint(*field(c)) },
	}
}

// duration is a text like "10s".
func duration(key, env string, field func(*Config) *time.Duration, initial, least, most time.Duration, zero string) setting {
	allowed := fmt.Sprintf("a duration like %q, from %s to %s", short(initial), short(least), short(most))
	if zero != "" {
		allowed = fmt.Sprintf("\"0s\" (%s), or %s", zero, allowed)
	}
	return setting{
		key: key, env: env, kind: textKind, initial: short(initial), allowed: allowed,
		set: func(c *Config, text string) bool {
			d, err := time.ParseDuration(text)
			if err != nil || (d != 0 || zero == "") && (d < least || d > most) {
				return false
			}
			*field(c) = d
			return true
		},
		get: func(c *Config) string { return short(*field(c)) },
	}
}

// short is a duration without its zero parts.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// millis is a duration that is written as a number of milliseconds.
func millis(key, env string, field func(*Config) *time.Duration, initial, least, most int64, zero string) setting {
	s := number(key, env, func(*Config) *int64 { return new(int64) }, initial, least, most, zero)
	check := s.set
	s.set = func(c *Config, text string) bool {
		if !check(c, text) {
			return false
		}
		n, _ := strconv.ParseInt(text, 10, 64)
		*field(c) = time.Duration(n) * time.Millisecond
		return true
	}
	s.get = func(c *Config) string { return fmt.Sprint(field(c).Milliseconds()) }
	return s
}

func boolean(key, env string, field func(*Config) *bool, initial bool) setting {
	return setting{
		key: key, env: env, kind: booleanKind, initial: strconv.FormatBool(initial), allowed: "true or false",
		set: func(c *Config, text string) bool {
			switch strings.ToLower(text) {
			case "true", "1":
				*field(c) = true
			case "false", "0":
				*field(c) = false
			default:
				return false
			}
			return true
		},
		get: func(c *Config) string { return strconv.FormatBool(*field(c)) },
	}
}

// text is any text that valid takes; nil takes all.
func text(key, env string, field func(*Config) *string, initial, allowed string, valid func(string) bool) setting {
	return setting{
		key: key, env: env, kind: textKind, initial: initial, allowed: allowed,
		set: func(c *Config, value string) bool {
			if valid != nil && !valid(value) {
				return false
			}
			*field(c) = value
			return true
		},
		get: func(c *Config) string { return *field(c) },
	}
}

// choice is one of some words; the first one is the default.
func choice(key, env string, field func(*Config) *string, words ...string) setting {
	return text(key, env, field, words[0], "one of "+strings.Join(words, ", "), func(value string) bool {
		return slices.Contains(words, value)
	})
}

// list is a list of texts.
func list(key, env string, field func(*Config) *[]string, initial, allowed string, valid func(string) bool) setting {
	return setting{
		key: key, env: env, kind: listKind, initial: initial, allowed: allowed,
		set: func(c *Config, value string) bool {
			*field(c) = nil
			if value == "" {
				return true
			}
			items := strings.Split(value, ",")
			for i := range items {
				if items[i] = strings.TrimSpace(items[i]); !valid(items[i]) {
					return false
				}
			}
			*field(c) = items
			return true
		},
		get: func(c *Config) string { return strings.Join(*field(c), ",") },
	}
}

// secret is a text of the environment that is never shown.
func secret(env string, field func(*Config) *Secret, allowed string, valid func(string) bool) setting {
	return setting{
		env: env, allowed: allowed,
		set: func(c *Config, value string) bool {
			if value != "" && !valid(value) {
				return false
			}
			*field(c) = Secret(value)
			return true
		},
		get: func(c *Config) string { return field(c).String() },
	}
}

const allowedAddr = `host:port like "127.0.0.1:7942", an empty host means every address of the machine`

// isAddr reports whether s is a host:port to listen on.
func isAddr(s string) bool {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, " /@") {
		return false
	}
	return isPort(port, 0)
}

func isAddrOrEmpty(s string) bool { return s == "" || isAddr(s) }

func isPort(s string, least uint64) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n >= least
}

// isPeer reports whether s is id@host:port, something that can be dialled.
func isPeer(s string) bool {
	id, addr, ok := strings.Cut(s, "@")
	host, port, err := net.SplitHostPort(addr)
	return ok && isNodeID(id) && err == nil && host != "" && isPort(port, 1)
}

// isNodeID reports whether s can name a node.
func isNodeID(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
	})
}
