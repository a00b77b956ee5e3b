package audit // writes entries without turns

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/planbot-go/planbot/state"
)

// bundle is an audit in Redis, and in files.
type bundle struct {
	*testing.T
	redis *miniredis.Miniredis
	store *state.Store
	n     int // entries written
}

const inRedis = "planbot/{0}/audit"

func setup(t *testing.T) *bundle {
	t.Helper()
	server := miniredis.RunT(t)
	store, err := state.Open(t.Context(), "redis://"+server.Addr(), state.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return &bundle{T: t, redis: server, store: store}
}

// key is a key of 32 bytes.
func key(name byte) []byte { return bytes.Repeat([]byte{name}, 32) }

// replica is a process with these keys, the first of which signs.
func (b *bundle) replica(names string) *audit {
	a := &audit{store: b.store, keep: time.Hour}
	for _, name := range []byte(names) {
		a.keys = append(a.keys, key(name))
	}
	return a
}

func (b *bundle) writes(a *audit, n int) {
	b.Helper()
	for range n {
		b.n++
		if _, err := a.write(b.Context(), Entry{At: time.Now().UTC(), What: "approval", Outcome: "approved", ID: fmt.Sprint(b.n)}); err != nil {
			b.Fatal(err)
		}
	}
}

// lines are those of Redis, oldest first.
func (b *bundle) lines() (all []string) {
	b.Helper()
	all, err := b.redis.ZMembers(inRedis)
	if err != nil {
		b.Fatal(err)
	}
	return all
}

func (b *bundle) drop(lines ...string) {
	b.Helper()
	for _, line := range lines {
		if _, err := b.redis.ZRem(inRedis, line); err != nil {
			b.Fatal(err)
		}
	}
}

// swap puts a line in the place of another.
func (b *bundle) swap(line, by string) {
	b.Helper()
	at, err := b.redis.ZScore(inRedis, line)
	if err == nil {
		_, err = b.redis.ZAdd(inRedis, at, by)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.drop(line)
}

// adds adds a line at the end.
func (b *bundle) adds(line string) {
	b.Helper()
	at, err := b.redis.ZScore(inRedis, b.lines()[9])
	if err == nil {
		_, err = b.redis.ZAdd(inRedis, at+1, line)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// rewrites makes the chain anew, as who can write to Redis but has no key: with these texts.
func (b *bundle) rewrites(change func(i int, text string) string) {
	b.Helper()
	var before *state.Line
	for i, stored := range b.lines() {
		line := state.ReadLine(stored, nil)
		line.Text = change(i, line.Text)
		if before != nil {
			line.Before = before.Hash
		}
		b.swap(stored, line.Stored())
		now := state.ReadLine(line.Stored(), nil)
		before = &now
	}
	end, err := b.redis.Get(inRedis + "/end")
	if err != nil {
		b.Fatal(err)
	}
	parts := strings.SplitN(end, " ", 3)
	parts[1] = before.Hash
	_ = b.redis.Set(inRedis+"/end", strings.Join(parts, " "))
}

func (b *bundle) verify(names string) Chain {
	b.Helper()
	c, err := Verify(b.Context(), b.store, b.replica(names).keys, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (b *bundle) export(since time.Time) string {
	b.Helper()
	var s strings.Builder
	if err := Export(b.Context(), b.store, since, &s); err != nil {
		b.Fatal(err)
	}
	return s.String()
}

func (b *bundle) verifyFiles(names string, files ...string) Chain {
	b.Helper()
	var readers []io.Reader
	for _, text := range files {
		readers = append(readers, strings.NewReader(text))
	}
	c, err := VerifyFiles(b.replica(names).keys, readers...)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// expect fails unless the finding of an audit, in an entry or at its end, has these words. "": there is none.
func (b *bundle) expect(c Chain, want string) {
	b.Helper()
	found := c.Fault + c.Missing
	if c.Cut > 0 {
		found += fmt.Sprint(c.Cut, " cut at the beginning")
	}
	if want == "" && found != "" || !strings.Contains(found, want) {
		b.Errorf("found %q, not %q: %+v", found, want, c)
	}
}

// TestForgeries: whoever can write to Redis, but has no key, does this to ten entries.
func TestForgeries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forge func(b *bundle)
		want  string // with the key
		later string // after a bot wrote one more entry; "": the same as want
	}{
		"nothing":          {func(*bundle) {}, "", ""},
		"one changed":      {func(b *bundle) { b.swap(b.lines()[4], strings.Replace(b.lines()[4], "approved", "rejected", 1)) }, `"id":"6"`, ""},
		"the last changed": {func(b *bundle) { b.swap(b.lines()[9], strings.Replace(b.lines()[9], "approved", "rejected", 1)) }, "does not end where 10 entries", "entry 11 was written"},
		"one missing":      {func(b *bundle) { b.drop(b.lines()[4]) }, `"id":"6"`, ""},
		"two reordered": {func(b *bundle) {
			one, other := b.lines()[4], b.lines()[5]
			b.swap(one, "x")
			b.swap(other, one)
			b.swap("x", other)
		}, `"id":"6"`, ""},
		"the last three cut":   {func(b *bundle) { b.drop(b.lines()[7:]...) }, "does not end where 10 entries", "entry 11 was written"},
		"the first three cut":  {func(b *bundle) { b.drop(b.lines()[:3]...) }, "3 cut at the beginning", "entry 11 was written"},
		"all but the last cut": {func(b *bundle) { b.drop(b.lines()[:9]...) }, "9 cut at the beginning", "entry 11 was written"},
		"a beginning of its own": {func(b *bundle) {
			b.drop(b.lines()[:3]...)
			end, _ := b.redis.Get(inRedis + "/end")
			_ = b.redis.Set(inRedis+"/end", strings.Replace(end, " 1 ", " 4 ", 1))
		}, "the signature is not one of this end", "entry 11 was written"},
		"three cut with the end": {func(b *bundle) { b.drop(b.lines()[7:]...); b.redis.Del(inRedis + "/end") }, "nothing is signed", "entry 8 was written"},
		"all cut but the end":    {func(b *bundle) { b.drop(b.lines()...) }, "does not end where 10 entries", "entry 11 was written"},
		"all hashes stripped": {func(b *bundle) {
			for _, line := range b.lines() {
				b.swap(line, line[65:])
			}
		}, "does not end where 10 entries", "entry 11 was written"},
		"stripped with the end": {func(b *bundle) {
			for _, line := range b.lines() {
				b.swap(line, line[65:])
			}
			b.redis.Del(inRedis + "/end")
		}, "nothing is signed", "entry 11 was written"},
		"an entry without a hash behind": {func(b *bundle) { b.adds("{}") }, "{}", ""},
		"an entry with a hash behind":    {func(b *bundle) { b.adds(state.Hash(b.lines()[9]) + " {}") }, "does not end where 10 entries", "entry 12 was written"},
		"all written anew": {func(b *bundle) {
			b.rewrites(func(i int, text string) string { return strings.Replace(text, "approved", "rejected", 1) })
		}, "the signature is not one of this end", "entry 11 was written"},
		"the signature taken": {func(b *bundle) {
			end, _ := b.redis.Get(inRedis + "/end")
			_ = b.redis.Set(inRedis+"/end", strings.Join(strings.SplitN(end, " ", 3)[:2], " ")+" ")
		}, "nothing is signed", "entry 11 was written"},
		"no signature": {func(b *bundle) { _ = b.redis.Set(inRedis+"/end", "10 "+state.Hash(b.lines()[9])+" 1 x") }, "no signature", "entry 11 was written"},
		"a count of its own": {func(b *bundle) {
			end, _ := b.redis.Get(inRedis + "/end")
			_ = b.redis.Set(inRedis+"/end", "9"+end)
		}, "the signature is not one of this end", "was written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			one, two := b.replica("a"), b.replica("a") // two replicas write in turn
			for range 5 {
				b.writes(one, 1)
				b.writes(two, 1)
			}
			if c := b.verify("a"); c.Entries != 10 || c.Written != 10 || c.From != 1 || time.Since(c.Signed) > time.Minute || c.Fault+c.Missing != "" {
				t.Errorf("before: %+v", c)
			}
			c.forge(b)
			b.expect(b.verify("a"), c.want)
			b.writes(two, 1) // covers nothing up
			if c.later == "" {
				c.later = c.want
			}
			b.expect(b.verify("a"), c.later)
			b.writes(b.replica("a"), 1) // nor does a bot that was started again
			b.expect(b.verify("a"), c.later)
		})
	}
}

// TestForgeriesOfFiles, each of which somebody exported.
func TestForgeriesOfFiles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.replica("a")
	b.writes(a, 5)
	one := b.export(time.Time{})
	b.writes(a, 5)
	both := b.export(time.Time{}) // what is in one, too
	l := strings.SplitAfter(both, "\n")
	l = l[:len(l)-1]
	join := func(lines ...string) string { return strings.Join(lines, "") }
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"one":                    {[]string{one}, ""},
		"all":                    {[]string{both}, ""},
		"overlapping":            {[]string{one, both}, ""},
		"its beginning cut":      {[]string{join(l[3:]...)}, "3 cut at the beginning"},
		"only its last":          {[]string{join(l[9:]...)}, "9 cut at the beginning"},
		"a beginning of its own": {[]string{join(l[3:10]...) + strings.Replace(l[10], `"first":1`, `"first":4`, 1)}, "not one of this end"},
		"the same twice":         {[]string{both, both}, ""},
		"an older one last":      {[]string{both, one}, ""},
		"in pieces":              {[]string{one, join(l[5:]...)}, ""},
		"a piece missing":        {[]string{one, join(l[7:]...)}, `"id":"8"`},
		"changed":                {[]string{strings.Replace(both, `"id":"4"`, `"id":"44"`, 1)}, `"id":"5"`},
		"the last changed":       {[]string{strings.Replace(both, `"id":"10"`, `"id":"44"`, 1)}, "does not end where 10"},
		"missing":                {[]string{join(l[0], l[2]) + join(l[3:]...)}, `"id":"3"`},
		"reordered":              {[]string{join(l[0], l[2], l[1]) + join(l[3:]...)}, `"id":"3"`},
		"twice":                  {[]string{join(l[0], l[1], l[1]) + join(l[2:]...)}, `"id":"2"`},
		"cut":                    {[]string{join(l[:7]...)}, "may be missing"},
		"its end kept":           {[]string{join(l[:7]...) + l[10]}, "does not end where 10"},
		"signature changed":      {[]string{join(l[:10]...) + strings.Replace(l[10], `"count":10`, `"count":11`, 1)}, "not one of this end"},
		"signature taken":        {[]string{join(l[:10]...) + l[10][:strings.Index(l[10], `,"seal"`)] + "}\n"}, "nothing is signed"},
		"stripped": {[]string{func() (s string) {
			for _, line := range l[:10] {
				s += "{" + line[len(beforePrefix)+66:]
			}
			return s
		}()}, "No entry has a hash"},
		"another file": {[]string{both, `{"at":"2026-01-01T00:00:00Z"}` + "\n"}, "2026"},
	} {
		t.Run(name, func(t *testing.T) { (&bundle{T: t}).expect(b.verifyFiles("a", c.files...), c.want) })
	}
	if _, err := VerifyFiles(nil, strings.NewReader(strings.Repeat("x", maxLine+1))); err == nil {
		t.Error("a line of a megabyte is read")
	}
	if c := b.verifyFiles("a", both, one); c.Entries != 10 || c.Written != 10 {
		t.Errorf("the older one last: %+v", c)
	}
	if c := b.verifyFiles("", both); c.Fault+c.Missing != "" || !c.Signed.IsZero() || c.Written != 10 {
		t.Errorf("without keys: %+v", c)
	}
}

// TestWhatWent with time, or because there was more than there may be, is not missing.
func TestWhatWent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.replica("a") // keeps an hour
	b.redis.SetTime(time.Now().Add(-2 * time.Hour))
	b.writes(a, 5)
	b.redis.SetTime(time.Now())
	b.expect(b.verify("a"), "") // they are still there
	b.writes(a, 3)
	if c := b.verify("a"); c != (Chain{Entries: 3, Written: 8, Signed: c.Signed, From: 1}) {
		t.Errorf("after an hour: %+v", c)
	}
	sign := func(was, now state.End) string { return a.sign(b.Context(), was, now) }
	full, err := b.store.Append(t.Context(), logName, time.Hour, 2, sign, state.Line{At: time.Now(), Text: "{}"})
	if c := b.verify("a"); err != nil || !full || c != (Chain{Entries: 2, Written: 9, Signed: c.Signed, From: 1}) {
		t.Errorf("with too many: %+v, %v, %v", c, full, err)
	}
	b.expect(b.verifyFiles("a", b.export(time.Time{})), "")
	b.drop(b.lines()[0])
	b.expect(b.verify("a"), "1 cut at the beginning")
	b.expect(b.verifyFiles("a", b.export(time.Time{})), "1 cut at the beginning")
}

// TestKeys: they are set later, changed, and known to one replica alone.
func TestKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.writes(b.replica(""), 3)
	c := b.verify("")
	b.expect(c, "")
	if c.Written != 3 || !c.Signed.IsZero() {
		t.Errorf("without keys: %+v", c)
	}
	b.expect(b.verify("a"), "nothing is signed")
	b.writes(b.replica("a"), 2)
	c = b.verify("a")
	b.expect(c, "")
	if c.From != 4 {
		t.Errorf("signed since entry %d", c.From)
	}
	b.expect(b.verify("b"), "none of the keys is "+keyID(key('a')))
	b.writes(b.replica("ba"), 1) // while another replica
	b.writes(b.replica("ab"), 1) // still signs with the old one
	b.writes(b.replica("ba"), 1)
	for _, keys := range []string{"ba", "ab", "b"} {
		c = b.verify(keys)
		b.expect(c, "")
		if c.From != 4 || c.Written != 8 {
			t.Errorf("with %s: %+v", keys, c)
		}
	}
	b.expect(b.verify("a"), "none of the keys is ")
	b.expect(b.verify(""), "")
	b.writes(b.replica(""), 1) // a bot that lost its keys
	b.expect(b.verify("b"), "nothing is signed")
	b.writes(b.replica("c"), 1) // a key without the one before it
	b.writes(b.replica("d"), 1)
	b.expect(b.verify("d"), "entry 11 was written")
	since, err := b.redis.ZScore(inRedis, b.lines()[10])
	if err != nil {
		t.Fatal(err)
	}
	for more, want := range []string{"entry 11 was written", ""} { // what an operator knows about is left out with --since
		c, err := Verify(t.Context(), b.store, [][]byte{key('d')}, time.UnixMicro(int64(since)+int64(more)))
		if err != nil {
			t.Fatal(err)
		}
		b.expect(c, want)
	}
}

// TestEntriesOfEarlierReleases verify: those without hashes before the chain, and those with hashes and no end.
func TestEntriesOfEarlierReleases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.redis.ZAdd(inRedis, float64(time.Now().Add(-time.Minute).UnixMicro()), `{"what":"old"}`); err != nil {
		t.Fatal(err)
	}
	b.expect(b.verify(""), "No entry has a hash")
	b.writes(b.replica(""), 3)
	b.redis.Del(inRedis + "/end") // the release before this one wrote none
	if c := b.verify(""); c != (Chain{Entries: 4, Loose: 1}) {
		t.Errorf("%+v", c)
	}
	b.writes(b.replica("a"), 2)
	c := b.verify("a")
	b.expect(c, "")
	if c.From != 5 || c.Written != 6 || c.Loose != 1 {
		t.Errorf("%+v", c)
	}
}

// TestEndsOfEarlierReleases verify, which do not say where the audit begins, and a signed audit goes on from there.
func TestEndsOfEarlierReleases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	a := b.replica("a")
	b.writes(a, 3)
	end, _, err := b.store.LogEnd(t.Context(), logName)
	if err != nil {
		t.Fatal(err)
	}
	s, err := readSignature(end, a.keys)
	if err != nil {
		t.Fatal(err)
	}
	end.First = 0
	_ = b.redis.Set(inRedis+"/end", fmt.Sprint(end.Count, " ", end.Hash, " ", s.from, " ", s.broke, " ", s.at.Unix(), " ", s.key, " ", s.sign(end, key('a'))))
	b.expect(b.verify("a"), "")
	b.writes(a, 1)
	c := b.verify("a")
	b.expect(c, "")
	if c.From != 1 || c.Written != 4 {
		t.Errorf("%+v", c)
	}
	b.drop(b.lines()[0])
	b.expect(b.verify("a"), "1 cut at the beginning")
}

// TestVerifyWhileOthersWrite finds nothing.
func TestVerifyWhileOthersWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.writes(b.replica("a"), 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for a := b.replica("a"); ctx.Err() == nil; {
			_, _ = a.write(ctx, Entry{At: time.Now(), What: "call"})
		}
	}()
	for range 50 {
		b.expect(b.verify("a"), "")
		b.expect(b.verifyFiles("", b.export(time.Time{})), "")
	}
	cancel()
	<-done
}
