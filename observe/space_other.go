//go:build !unix

package observe

import "errors"

// diskSpace is not known here.
func diskSpace(string) (available, total uint64, err error) { return 0, 0, errors.ErrUnsupported }
