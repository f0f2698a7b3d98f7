package report

import (
	"encoding/json"
	"math"
)

// Ratio is a quotient of measured values. It is NaN or infinite when what it is of was too little to be measured, as in a very short run:
// null in JSON, which has no such numbers, and a dash in tables. It then meets no target.
type Ratio float64

// MarshalJSON makes a number, or null.
func (r Ratio) MarshalJSON() ([]byte, error) {
	if !finite(float64(r)) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(r))
}

// UnmarshalJSON reads what MarshalJSON made; null is NaN.
func (r *Ratio) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*r = Ratio(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(r))
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
