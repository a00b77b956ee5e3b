package mcp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/actions/mcp"
)

// library is what a fake server has of skills.
type library struct {
	*fake
	list  func(cursor string) string              // the result of skills/list
	get   func(uri string) string                 // of skills/get; "": there is no such skill
	files map[string]string                       // by URI
	read  func(w http.ResponseWriter, m ask) bool // true: it has answered
	ttl   string                                  // of a file, in ms
}

type ask struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		URI    string         `json:"uri"`
		Cursor string         `json:"cursor"`
		Meta   map[string]any `json:"_meta"`
	} `json:"params"`
}

const (
	refundsURI = "skill://acme/refunds/SKILL.md"
	refundsMD  = "---\nname: refunds\ndescription: Pays money back\n---\n\nAsk why.\n"
	mailURI    = "skill://acme/refunds/examples/e%20mail.md"
	mailMD     = "Dear customer ☂\n"
)

// newLibrary is a server with the skill refunds.
func newLibrary(t *testing.T) *library {
	t.Helper()
	l := &library{fake: newFake(t, tool("send")), files: map[string]string{refundsURI: refundsMD, mailURI: mailMD}}
	l.list = func(string) string { return listing(l.entry(refundsURI)) }
	l.get = func(string) string { return "" }
	l.set(func() { l.front = l.serve })
	return l
}

func listing(entries ...string) string {
	return `{"resultType":"complete","skills":[` + strings.Join(entries, ",") + `],"ttlMs":3600000,"cacheScope":"private"}`
}

// file is a file as servers list it.
func file(uri, content string) string {
	return fmt.Sprintf(`{"uri":%q,"digest":"sha256:%x","size":%d}`, uri, sha256.Sum256([]byte(content)), len(content))
}

// entry is what the server says about the skill of a URI.
func (l *library) entry(uri string) string {
	root := strings.TrimSuffix(uri, "SKILL.md")
	name := root[strings.LastIndex(strings.TrimSuffix(root, "/"), "/")+1 : len(root)-1]
	var files []string
	for other, content := range l.files {
		if strings.HasPrefix(other, root) {
			files = append(files, file(other, content))
		}
	}
	return fmt.Sprintf(`{"uri":%q,"frontmatter":{"name":%q,"description":"Pays money back"},"resources":[%s]}`, uri, name, strings.Join(files, ","))
}

func (l *library) serve(w http.ResponseWriter, r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m ask
	_ = json.Unmarshal(body, &m)
	l.mu.Lock()
	list, get, read, content, ok, ttl := l.list, l.get, l.read, l.files[m.Params.URI], l.files[m.Params.URI] != "", l.ttl
	l.mu.Unlock()
	answer := func(result string) bool {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		return true
	}
	switch {
	case m.Method == "server/discover" && !l.legacy:
		return answer(`{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"resources":{},"extensions":{"io.modelcontextprotocol/skills":{}}}}`)
	case m.Method == "skills/list":
		return answer(list(m.Params.Cursor))
	case m.Method == "skills/get" && get(m.Params.URI) != "":
		return answer(get(m.Params.URI))
	case m.Method == "resources/read" && read != nil && read(w, m):
		return true
	case m.Method == "resources/read" && ok:
		where := fmt.Sprintf(`"text":%s`, quoted(content))
		if strings.HasSuffix(m.Params.URI, ".png") {
			where = fmt.Sprintf(`"blob":%q`, base64.StdEncoding.EncodeToString([]byte(content)))
		}
		if ttl == "" {
			ttl = "0"
		}
		return answer(fmt.Sprintf(`{"resultType":"complete","contents":[{"uri":%q,%s}],"ttlMs":%s,"cacheScope":"private"}`, m.Params.URI, where, ttl))
	case m.Method == "resources/read", m.Method == "skills/get":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"there is no such thing"}}`, m.ID)
		return true
	}
	return false
}

func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// skillsOf are the skills of a turn.
func skillsOf(t *testing.T, c *mcp.Connection) []*connections.Skill {
	t.Helper()
	list, err := c.Skills(t.Context(), turnOf(t, "ada"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// one is the only skill, with its file of that path.
func one(t *testing.T, c *mcp.Connection, path string) (*connections.Skill, connections.SkillFile) {
	t.Helper()
	list := skillsOf(t, c)
	if len(list) != 1 {
		t.Fatalf("%d skills", len(list))
	}
	i := slices.IndexFunc(list[0].Files, func(f connections.SkillFile) bool { return f.Path == path })
	if i < 0 {
		t.Fatalf("no %s in %+v", path, list[0].Files)
	}
	return list[0], list[0].Files[i]
}

func TestSkillsAreListedAndRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		l.files["skill://acme/refunds/logo.png"] = "\x89PNG\xff\x00"
		c, _ := connectTo(t, l.URL)
		s, f := one(t, c, "examples/e mail.md")
		if s.URI != refundsURI || s.Name != "refunds" || len(s.Files) != 3 || len(s.Digest) != 64 || !strings.Contains(string(s.Definition), mailURI) {
			t.Errorf("%+v", s)
		}
		if got, err := c.ReadSkillFile(t.Context(), s, f); string(got) != mailMD || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		_, logo := one(t, c, "logo.png")
		if got, err := c.ReadSkillFile(t.Context(), s, logo); string(got) != "\x89PNG\xff\x00" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		again, _ := one(t, c, "SKILL.md")
		if again != s || l.count("skills/list") != 1 || l.count("resources/read") != 2 {
			t.Errorf("%d lists, %d reads", l.count("skills/list"), l.count("resources/read"))
		}
		f.URI = "skill://acme/refunds/unlisted.md"
		if _, err := c.ReadSkillFile(t.Context(), s, f); err == nil || l.count("resources/read") != 2 {
			t.Errorf("read a file that is not listed: %v", err)
		}
	})
}

func TestSkillsOfAllPagesAndByURI(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		for _, name := range []string{"a", "b", "hidden"} {
			l.files["skill://"+name+"/SKILL.md"] = name
		}
		l.list = func(cursor string) string {
			if cursor == "" {
				return strings.Replace(listing(l.entry("skill://a/SKILL.md")), `"ttlMs"`, `"nextCursor":"2","ttlMs"`, 1)
			}
			return listing(l.entry("skill://b/SKILL.md"))
		}
		l.get = func(uri string) string {
			if uri != "skill://hidden/SKILL.md" {
				return ""
			}
			return `{"resultType":"complete","skill":` + l.entry(uri) + `,"ttlMs":0,"cacheScope":"private"}`
		}
		c, log := connectTo(t, l.URL, func(cfg *mcp.Config) {
			cfg.Skills = []string{"skill://b/SKILL.md", "skill://hidden/SKILL.md", "skill://none/SKILL.md"}
		})
		var names []string
		for _, s := range skillsOf(t, c) {
			names = append(names, s.Name)
		}
		if want := []string{"a", "b", "hidden"}; !slices.Equal(names, want) || l.count("skills/get") != 2 {
			t.Errorf("%v, %d skills/get", names, l.count("skills/get"))
		}
		if !strings.Contains(log.String(), "skill://none/SKILL.md") {
			t.Errorf("nothing about the missing one: %s", log)
		}
		if _, err := mcp.New(mcp.Config{Key: "svc", URL: l.URL, Skills: []string{"skill://b"}}); err == nil || !strings.Contains(err.Error(), "Skills:") {
			t.Error(err)
		}
	})
}

func TestBrokenSkillsAreLeftOut(t *testing.T) {
	t.Parallel()
	good := file("skill://x/SKILL.md", "x")
	entry := func(uri, front, resources string) string {
		return `{"uri":"` + uri + `","frontmatter":` + front + `,"resources":` + resources + `}`
	}
	const uri, front = "skill://x/SKILL.md", `{"name":"x","description":"d"}`
	many := strings.TrimSuffix(strings.Repeat(good+",", 513), ",")
	for name, c := range map[string]struct{ entry, want string }{
		"no object":            {`7`, "it is no object"},
		"a member twice":       {`{"uri":"` + uri + `","uri":"` + uri + `","frontmatter":` + front + `,"resources":[` + good + `]}`, "duplicate"},
		"dynamic":              {entry(uri, front, `"dynamic"`), "no digests"},
		"no resources":         {`{"uri":"` + uri + `","frontmatter":` + front + `}`, "no list of files"},
		"no SKILL.md":          {entry(uri, front, `[`+file("skill://x/a.md", "x")+`]`), "no SKILL.md"},
		"another's file":       {entry(uri, front, `[`+good+`,`+file("skill://y/a.md", "x")+`]`), "not in the folder"},
		"out of the folder":    {entry(uri, front, `[`+good+`,`+file("skill://x/../y/a.md", "x")+`]`), "not in the folder"},
		"out, encoded":         {entry(uri, front, `[`+good+`,`+file("skill://x/%2e%2e%2fy.md", "x")+`]`), "not in the folder"},
		"a file twice":         {entry(uri, front, `[`+good+`,`+good+`]`), "listed twice"},
		"a file two ways":      {entry(uri, front, `[`+good+`,`+file("skill://x/SKILL%2emd", "y")+`]`), "listed twice"},
		"no digest":            {entry(uri, front, `[{"uri":"`+uri+`","size":1}]`), "no digest"},
		"a digest in capitals": {entry(uri, front, `[`+strings.Replace(good, "sha256:", "sha256:A", 1)+`]`), "no digest"},
		"no size":              {entry(uri, front, `[`+strings.Replace(good, `"size":1`, `"length":1`, 1)+`]`), "no size"},
		"too large":            {entry(uri, front, `[`+strings.Replace(good, `"size":1`, `"size":16777217`, 1)+`]`), "no size of at most"},
		"too large together":   {entry(uri, front, `[`+strings.Replace(good, `"size":1`, `"size":16777216`, 1)+`,`+file("skill://x/a", "x")+`]`), "more than 16777216 bytes"},
		"too many files":       {entry(uri, front, `[`+many+`]`), "513 files"},
		"too long":             {entry(uri, `{"name":"x","description":"`+strings.Repeat("d", 300<<10)+`"}`, `[`+good+`]`), "bytes, and may have"},
		"no description":       {entry(uri, `{"name":"x"}`, `[`+good+`]`), "no name and description"},
		"another name":         {entry(uri, `{"name":"y","description":"d"}`, `[`+good+`]`), "does not end with its name"},
		"no SKILL.md in uri":   {entry("skill://x", front, `[`+good+`]`), "not that of a SKILL.md"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLibrary(t)
				l.list = func(string) string { return listing(c.entry, l.entry(refundsURI)) }
				conn, log := connectTo(t, l.URL)
				one(t, conn, "SKILL.md")
				if !strings.Contains(log.String(), c.want) || !strings.Contains(log.String(), "left out") {
					t.Errorf("want %q in %s", c.want, log)
				}
				if l.count("resources/read") != 0 {
					t.Error("files were read")
				}
			})
		})
	}
}

// TestAChangedFileIsNotRead: what does not fit its digest is never returned.
func TestAChangedFileIsNotRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ result, want string }{
		"the same size":  {`{"contents":[{"uri":"` + mailURI + `","text":` + quoted(strings.Replace(mailMD, "D", "B", 1)) + `}],"ttlMs":0}`, "not the one that the server listed"},
		"another size":   {`{"contents":[{"uri":"` + mailURI + `","text":"x"}],"ttlMs":0}`, "not the one that the server listed"},
		"another file":   {`{"contents":[{"uri":"` + refundsURI + `","text":` + quoted(mailMD) + `}],"ttlMs":0}`, "not the one that the server listed"},
		"two":            {`{"contents":[{"uri":"` + mailURI + `","text":` + quoted(mailMD) + `},{"uri":"x","text":"y"}],"ttlMs":0}`, "no single file"},
		"none":           {`{"contents":[],"ttlMs":0}`, "no single file"},
		"asks for input": {`{"resultType":"input_required","inputRequests":{},"requestState":"s"}`, "read"},
		"64 MiB":         {`{"contents":[{"uri":"` + mailURI + `","text":"` + strings.Repeat("x", 9<<20) + `"}]}`, "more than 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLibrary(t)
				l.read = func(w http.ResponseWriter, m ask) bool {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, c.result)
					return true
				}
				conn, _ := connectTo(t, l.URL)
				s, f := one(t, conn, "examples/e mail.md")
				if got, err := conn.ReadSkillFile(t.Context(), s, f); got != nil || err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

// TestAnOldAnswerIsNotKept: the library keeps answers for as long as the server says. A file that has changed is
// asked for again all the same.
func TestAnOldAnswerIsNotKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		l.ttl = "3600000"
		c, _ := connectTo(t, l.URL)
		s, f := one(t, c, "examples/e mail.md")
		l.set(func() { l.files[mailURI] = "wrong" })
		if _, err := c.ReadSkillFile(t.Context(), s, f); err == nil {
			t.Fatal("read a wrong file")
		}
		l.set(func() { l.files[mailURI] = mailMD })
		if got, err := c.ReadSkillFile(t.Context(), s, f); string(got) != mailMD || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestServersWithoutSkills(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, tool("send"))
		c, _ := connectTo(t, f.URL)
		if list := skillsOf(t, c); len(list) != 0 || f.count("skills/list") != 0 {
			t.Errorf("%v, asked %d times", list, f.count("skills/list"))
		}
	})
}

func TestBrokenListsOfSkills(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result func(cursor string) string
		want   string
	}{
		"a cursor twice": {func(string) string { return `{"skills":[],"nextCursor":"x"}` }, "a cursor came twice"},
		"endless":        {func(cursor string) string { return `{"skills":[],"nextCursor":"` + cursor + `x"}` }, "more than 20 pages"},
		"no list":        {func(string) string { return `{"skills":7}` }, "not what the method promises"},
		"not complete":   {func(string) string { return `{"resultType":"later","skills":[]}` }, "not what the method promises"},
		"64 MiB":         {func(string) string { return `{"skills":["` + strings.Repeat("x", 3<<20) + `"]}` }, "more than 2097152 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLibrary(t)
				l.list = c.result
				conn, _ := connectTo(t, l.URL)
				if list, err := conn.Skills(t.Context(), turnOf(t, "ada")); list != nil || err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%v, %v", list, err)
				}
				if names := offered(t, conn); !slices.Equal(names, []string{"svc_send"}) {
					t.Errorf("its tools are %v", names)
				}
			})
		})
	}
}

func TestMoreSkillsThanAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		var entries []string
		for i := range 210 {
			uri := fmt.Sprintf("skill://s%d/SKILL.md", i)
			l.files[uri] = "x"
			entries = append(entries, l.entry(uri))
		}
		l.list = func(string) string { return listing(entries...) }
		c, log := connectTo(t, l.URL)
		if list := skillsOf(t, c); len(list) != 200 || !strings.Contains(log.String(), "more than 200 skills, 10 more") {
			t.Errorf("%d skills, %s", len(list), log)
		}
	})
}

// TestSkillsOfEachPerson: each person has the list and the files that the server gives their token.
func TestSkillsOfEachPerson(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, p := newLibrary(t), newPeople(t)
		var mixed atomic.Bool
		l.set(func() {
			l.front = func(w http.ResponseWriter, r *http.Request) bool {
				token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
				body, _ := io.ReadAll(r.Body)
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte("skill://")) && !bytes.Contains(body, []byte("skill://"+token+"/")) {
					mixed.Store(true)
				}
				if bytes.Contains(body, []byte("skills/list")) {
					var m ask
					_ = json.Unmarshal(body, &m)
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, listing(l.entry("skill://"+token+"/SKILL.md")))
					return true
				}
				return l.serve(w, r)
			}
			for _, token := range []string{"ta", "tb"} {
				l.files["skill://"+token+"/SKILL.md"] = "of " + token
			}
		})
		p.sign("ada", "ta")
		p.sign("bob", "tb")
		c, _ := connectTo(t, l.URL, func(cfg *mcp.Config) { cfg.SignIn = "crm" })
		for _, who := range []string{"ada", "bob", "eve"} {
			list, err := c.Skills(t.Context(), p.turn(t, who))
			if err != nil {
				t.Fatal(err)
			}
			if who == "eve" {
				if len(list) != 0 {
					t.Errorf("eve has %v", list)
				}
				continue
			}
			token := "t" + who[:1]
			if len(list) != 1 || list[0].Name != token {
				t.Fatalf("%s has %v", who, list)
			}
			if got, err := c.ReadSkillFile(t.Context(), list[0], list[0].Files[0]); string(got) != "of "+token || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			if who == "bob" {
				if _, err := c.Forget(t.Context(), p.turn(t, who)); err != nil {
					t.Fatal(err)
				}
				reads := l.count("resources/read")
				if _, err := c.ReadSkillFile(t.Context(), list[0], list[0].Files[0]); err == nil || l.count("resources/read") != reads {
					t.Errorf("read without a token: %v", err)
				}
			}
		}
		if list, err := c.Skills(t.Context(), nil); list != nil || err != nil {
			t.Errorf("nobody has %v, %v", list, err)
		}
		if mixed.Load() {
			t.Error("a person read with another's token")
		}
	})
}

// TestAServerWithSkillsThatIsAway: a list is kept, a new one is an error, and both come back.
func TestAServerWithSkillsThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		c, _ := connectTo(t, l.URL)
		s, f := one(t, c, "SKILL.md")
		other, _ := connectTo(t, l.URL)
		l.stop()
		if list := skillsOf(t, c); len(list) != 1 {
			t.Errorf("the list of before is gone: %v", list)
		}
		if got, err := c.ReadSkillFile(t.Context(), s, f); got != nil || err == nil {
			t.Errorf("%q, %v", got, err)
		}
		if list, err := other.Skills(t.Context(), turnOf(t, "ada")); list != nil || err == nil {
			t.Errorf("%v, %v", list, err)
		}
	})
}

// TestAForgottenSession: the file is read over a new session.
func TestAForgottenSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		once := make(chan struct{}, 1)
		once <- struct{}{}
		l.read = func(w http.ResponseWriter, _ ask) bool {
			select {
			case <-once:
				w.WriteHeader(http.StatusNotFound)
				return true
			default:
				return false
			}
		}
		c, _ := connectTo(t, l.URL)
		s, f := one(t, c, "SKILL.md")
		if got, err := c.ReadSkillFile(t.Context(), s, f); string(got) != refundsMD || err != nil || l.count("server/discover") != 2 {
			t.Errorf("%q, %v, %d sessions", got, err, l.count("server/discover"))
		}
	})
}

// TestTrustInSkills: nothing is trusted but what is pinned on a server that is trusted, and what was pinned in
// another form is not there.
func TestTrustInSkills(t *testing.T) {
	t.Parallel()
	l := newLibrary(t)
	probe, _ := connectTo(t, l.URL)
	s, _ := one(t, probe, "SKILL.md")
	for name, c := range map[string]struct {
		pin            jsontext.Value
		noLock, trust  bool
		trusted, there bool
	}{
		"pinned and trusted": {pin: s.Definition, trust: true, trusted: true, there: true},
		"only pinned":        {pin: s.Definition, there: true},
		"only trusted":       {trust: true, there: true},
		"no lock":            {noLock: true, trust: true, there: true},
		"pinned otherwise":   {pin: jsontext.Value(strings.Replace(string(s.Definition), "money", "nothing", 1)), trust: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lock := connections.NewLock()
			lock.FirstUse = true
			if c.pin != nil {
				if err := lock.Set("svc", map[string]jsontext.Value{refundsURI: c.pin}); err != nil {
					t.Fatal(err)
				}
			}
			conn, log := connectTo(t, l.URL, func(cfg *mcp.Config) {
				cfg.Rules.Trust = c.trust
				if !c.noLock {
					cfg.Lock = lock
				}
			})
			list := skillsOf(t, conn)
			if (len(list) == 1) != c.there || c.there && conn.Trusts(list[0]) != c.trusted {
				t.Errorf("%d skills", len(list))
			}
			conn.Actions()
			if text := log.String(); strings.Contains(text, "pinned tool") || strings.Contains(text, "has changed since") != !c.there {
				t.Error(text)
			}
		})
	}
}

// TestTheDigestIsThatOfEveryFile: in whichever order a server lists them.
func TestTheDigestIsThatOfEveryFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		digest := func(files ...string) string {
			l.set(func() {
				l.list = func(string) string {
					return listing(`{"uri":"` + refundsURI + `","resources":[` + strings.Join(files, ",") + `],"frontmatter":{"name":"refunds","description":"d"}}`)
				}
			})
			c, _ := connectTo(t, l.URL)
			s, _ := one(t, c, "SKILL.md")
			return s.Digest
		}
		head, mail := file(refundsURI, refundsMD), file(mailURI, mailMD)
		before := digest(head, mail)
		if digest(mail, head) != before {
			t.Error("another order, and another digest")
		}
		if digest(head, file(mailURI, "x")) == before || digest(head) == before {
			t.Error("other files, and the same digest")
		}
	})
}

func TestReadingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLibrary(t)
		l.read = func(http.ResponseWriter, ask) bool { <-l.gone; return true }
		c, _ := connectTo(t, l.URL)
		s, f := one(t, c, "SKILL.md")
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() {
			_, err := c.ReadSkillFile(ctx, s, f)
			result <- err
		}()
		eventually(t, "the read", func() bool { return l.count("resources/read") == 1 })
		cancel()
		if err := <-result; !errors.Is(err, ctx.Err()) {
			t.Error(err)
		}
	})
}
