package server

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"narad/engine"
)

// badRequest is a request that the server refuses by itself. Its text goes to the client.
type badRequest string

func (e badRequest) Error() string { return string(e) }

func badf(format string, args ...any) error { return badRequest(fmt.Sprintf(format, args...)) }

// query parses the whole query string. One that does not parse is refused rather than read in part: losing
// "extend=0" would turn a nack into an ack.
func query(r *http.Request) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badf("the query string is malformed")
	}
	return q, nil
}

// single returns a parameter that may be given at most once and not empty.
func single(q url.Values, name string) (value string, given bool, err error) {
	switch values := q[name]; {
	case len(values) == 0:
		return "", false, nil
	case len(values) > 1:
		return "", false, badf("%s is given more than once", name)
	case values[0] == "":
		return "", false, badf("%s is empty", name)
	default:
		return values[0], true, nil
	}
}

// partitionParam returns the partition that a request names, or engine.AnyPartition. Whether the topic has
// it is for the engine to say.
func partitionParam(q url.Values) (int32, error) {
	text, given, err := single(q, "partition")
	if err != nil || !given {
		return engine.AnyPartition, err
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0, badf("partition is not a number from 0 on")
	}
	return int32(n), nil
}
