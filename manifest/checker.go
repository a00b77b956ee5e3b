package manifest

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// checker collects the problems of one manifest.
type checker struct {
	file     string
	root     map[string]any // nil when the file is not a JSON object
	problems []Problem
}

// newChecker parses a manifest strictly: a name given twice, or text after the
// document, is a problem. A byte order mark is dropped, as Microsoft's tools do.
func newChecker(file string, data []byte) *checker {
	c := &checker{file: file}
	if len(data) > maxManifestBytes {
		c.note("", "has %d bytes, more than %d", len(data), maxManifestBytes)
		return c
	}
	var doc any
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF")), &doc); err != nil {
		c.note("", "is not JSON: %v", err)
		return c
	}
	root, ok := doc.(map[string]any)
	if !ok {
		c.note("", "is not a JSON object")
	}
	c.root = root
	return c
}

// checkAll runs the schema and every documented rule.
func (c *checker) checkAll() {
	if c.root == nil {
		return
	}
	c.checkSchema()
	c.checkIdentity()
	c.checkNames()
	c.checkURLs()
	c.checkDomains()
	c.checkIconNames()
	c.checkBot()
	c.checkAgents()
	c.checkPlaceholders(c.root)
}

// note adds a problem, up to the number that anybody reads.
func (c *checker) note(pointer, format string, args ...any) {
	if len(c.problems) == maxProblems {
		return
	}
	c.problems = append(c.problems, problem(c.file, pointer, format, args...))
}

// at returns the value at a JSON pointer (without escapes), nil when there is
// none.
func (c *checker) at(pointer string) any {
	var v any = c.root
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch parent := v.(type) {
		case map[string]any:
			v = parent[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(parent) {
				return nil
			}
			v = parent[i]
		default:
			return nil
		}
	}
	return v
}

// text returns the string at a pointer, "" when there is none.
func (c *checker) text(pointer string) string {
	s, _ := c.at(pointer).(string)
	return s
}

// size returns the length of the array at a pointer, 0 when there is none.
func (c *checker) size(pointer string) int {
	list, _ := c.at(pointer).([]any)
	return len(list)
}

// texts returns the strings of the array at a pointer.
func (c *checker) texts(pointer string) []string {
	var out []string
	for i := range c.size(pointer) {
		if s := c.text(fmt.Sprintf("%s/%d", pointer, i)); s != "" {
			out = append(out, s)
		}
	}
	return out
}
