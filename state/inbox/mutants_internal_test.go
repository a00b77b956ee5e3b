//go:build long

package inbox

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"
)

// TestMutants breaks the scripts in one place at a time, and wants the histories to notice. It takes minutes, so .ci/long runs it:
//
//	go test -tags long ./state/inbox -run TestMutants -rapid.checks=500 -rapid.shrinktime=1ns -rapid.nofailfile
func TestMutants(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	files, err := filepath.Glob("*.lua")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, file := range append(files, "../internal/rdb/docs.lua") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(raw), "\n") {
			for _, broken := range mutants(line) {
				if equal[strings.TrimSpace(broken)] != "" {
					continue
				}
				count++
				if !noticed(t, server, client, line, broken) {
					t.Errorf("%s:%d: nobody notices %q", file, n+1, strings.TrimSpace(broken))
				}
			}
		}
	}
	t.Logf("%d mutants", count)
}

// endless is a line without which a script never ends.
const endless = "    redis.call('LPOP', list)"

// equal are changes that nobody can see, with the reason.
var equal = map[string]string{
	"if not mine and have[2] and tonumber(have[2]) > at then":                          "a lease has owner and until, or neither",
	"if not mine and have[2] and have[1] ~= '' then":                                   "a lease has owner and until, or neither",
	"if have[2] and (tonumber(have[1]) > at or have[2] ~= '' and ARGV[3] == '1') then": "a lease has owner and until, or neither",
	"if ARGV[8] == '' then": "a record that is done has no due time and no operator",
	"local list, records, waits, lease, leases, ready, depth, timers, dead, threads = unpack(KEYS, 1, 11)": "one key more than names",
	"if ARGV[7] == '1' and have[4] ~= '0' then":                                                            "writes the 0 that is there",
	"local first = redis.call('ZRANGE', set, 0, 1, 'WITHSCORES')":                                          "the second is not read",
}

var (
	operator = regexp.MustCompile(`==|~=|<=|>=| < | > | \+ | - | and | or |not `)
	swapped  = map[string]string{
		"==": "~=", "~=": "==", "<=": "<", ">=": ">", " < ": " <= ", " > ": " >= ",
		" + ": " - ", " - ": " + ", " and ": " or ", " or ": " and ", "not ": "",
	}
	number  = regexp.MustCompile(`\b\d+\b`)
	command = regexp.MustCompile(`redis\.call\(('[A-Z]+')[^()]*(\([^()]*\))?[^()]*\)`)
	name    = regexp.MustCompile(`\b(list|records|waits|lease|leases|ready|depth|timers|dead|threads|queue|id|at)\b[,)]`)
)

// mutants are the line with another operator, constant, key or without a call, one change each.
func mutants(line string) (all []string) {
	if line == endless {
		return nil
	}
	code, _, _ := strings.Cut(line, "--")
	replace := func(of *regexp.Regexp, by func(string) string) {
		for _, at := range of.FindAllStringIndex(code, -1) {
			all = append(all, code[:at[0]]+by(code[at[0]:at[1]])+code[at[1]:])
		}
	}
	replace(operator, func(op string) string { return swapped[op] })
	replace(number, func(digits string) string {
		n, _ := strconv.Atoi(digits)
		return strconv.Itoa(n + 1)
	})
	replace(command, func(string) string { return "next({})" })
	others := map[string]string{
		"list": "records", "records": "waits", "waits": "records", "leases": "timers", "timers": "dead", "dead": "timers", "ready": "list", "depth": "list",
	}
	replace(name, func(found string) string {
		word, end := found[:len(found)-1], found[len(found)-1:]
		if other := others[word]; other != "" {
			return other + end
		}
		return "'" + word + "'" + end
	})
	return all
}

// noticed plays histories with a broken line until one fails.
func noticed(t *testing.T, server *miniredis.Miniredis, client *redis.Client, line, broken string) bool {
	t.Helper()
	scripts := scriptTexts()
	for name, text := range scripts {
		scripts[name] = strings.ReplaceAll(text, "\n"+line+"\n", "\n"+broken+"\n")
	}
	v := &verdict{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		rapid.Check(v, func(t *rapid.T) { play(t, server, client, scripts) })
	}()
	<-ended
	return v.failed
}

// verdict is a test that may fail.
type verdict struct {
	testing.TB
	failed bool
}

func (v *verdict) Helper()               {}
func (v *verdict) Failed() bool          { return v.failed }
func (v *verdict) Fail()                 { v.failed = true }
func (v *verdict) FailNow()              { v.failed = true; runtime.Goexit() }
func (v *verdict) Error(...any)          { v.Fail() }
func (v *verdict) Errorf(string, ...any) { v.Fail() }
func (v *verdict) Fatal(...any)          { v.FailNow() }
func (v *verdict) Fatalf(string, ...any) { v.FailNow() }
func (v *verdict) Log(...any)            {}
func (v *verdict) Logf(string, ...any)   {}
