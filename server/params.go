package server

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"narad/engine"
)

// param is one parameter of a query string, unescaped.
type param struct{ name, value string }

// params are the parameters of a request in the order of the query string.
type params []param

// errQuery refuses a query string that does not parse as a whole, rather than read it in part: losing "extend=0" would turn
// a nack into an ack.
var errQuery = badRequest("the query string is malformed")

// query parses the query string. It does what [url.ParseQuery] does, without a map.
func (x *exchange) query() (params, error) {
	raw := x.r.URL.RawQuery
	if raw == "" {
		return nil, nil
	}
	if strings.IndexByte(raw, ';') >= 0 {
		return nil, errQuery
	}
	q := params(x.params[:0])
	for raw != "" {
		var pair string
		pair, raw, _ = strings.Cut(raw, "&")
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := unescape(name)
		if err != nil {
			return nil, errQuery
		}
		if value, err = unescape(value); err != nil {
			return nil, errQuery
		}
		q = append(q, param{name, value})
	}
	return q, nil
}

func unescape(s string) (string, error) {
	if strings.IndexByte(s, '%') < 0 && strings.IndexByte(s, '+') < 0 {
		return s, nil
	}
	return url.QueryUnescape(s)
}

// first returns the first of the parameters of a name.
func (q params) first(name string) (value string, given bool) {
	for i := range q {
		if q[i].name == name {
			return q[i].value, true
		}
	}
	return "", false
}

func (q params) has(name string) bool {
	_, given := q.first(name)
	return given
}

// single returns a parameter that may be given at most once and not empty.
func (q params) single(name string) (value string, given bool, err error) {
	for i := range q {
		switch {
		case q[i].name != name:
		case given:
			return "", false, badf("%s is given more than once", name)
		default:
			value, given = q[i].value, true
		}
	}
	if given && value == "" {
		return "", false, badf("%s is empty", name)
	}
	return value, given, nil
}

// partition returns the partition that a request names, or engine.AnyPartition. Whether the topic has it is for the
// engine to say.
func (q params) partition() (int32, error) {
	text, given, err := q.single("partition")
	if err != nil || !given {
		return engine.AnyPartition, err
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, badf("partition is not a number from 0 on")
	}
	return int32(n), nil
}

// flag returns a parameter that is true or false; absent and empty are false.
func (q params) flag(name string) (bool, error) {
	switch value, _ := q.first(name); value {
	case "", "false", "0":
		return false, nil
	case "true", "1":
		return true, nil
	}
	return false, badf("%s is neither true nor false", name)
}

// wait returns how long a consume may be parked.
func (q params) wait() (time.Duration, error) {
	text, given, err := q.single("wait")
	if err != nil || !given {
		return 0, err
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 {
		return 0, badf("wait is not a duration like 10s")
	}
	return wait, nil
}
