// Package lazy puts off work at the start of the program that most runs never need.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that compiles a regular expression when it is first called. That call
// panics if the expression is wrong. The function is safe for concurrent use.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
