package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-redsync/redsync/v4"
)

// The name of an error: of redsync's own, or of its type.
func class(err error) string {
	var taken *redsync.ErrTaken
	switch {
	case errors.As(err, &taken):
		return "ErrTaken"
	case errors.Is(err, redsync.ErrLockAlreadyExpired):
		return "ErrLockAlreadyExpired"
	case errors.Is(err, redsync.ErrExtendFailed):
		return "ErrExtendFailed"
	}
	kind := fmt.Sprintf("%T", err)
	return kind[strings.LastIndex(kind, ".")+1:]
}
