package skills

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"
	"golang.org/x/time/rate"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/internal/yamltext"
)

// host is a connection to a server that has skills. It is safe for concurrent use.
type host interface {
	Key() string // the operator's name for the server
	// Skills returns those that the person of the turn has. They are the same ones while the server says the same.
	Skills(ctx context.Context, turn *actions.Turn) ([]*connections.Skill, error)
	// Trusts reports whether the operator has accepted a skill as it is.
	Trusts(s *connections.Skill) bool
	// ReadSkillFile returns a file of a skill. It is what the server has listed, or an error.
	ReadSkillFile(ctx context.Context, s *connections.Skill, f connections.SkillFile) ([]byte, error)
}

// FromMCP returns the skills of an MCP server, whose connection package mcp makes, each named after the
// connection's key and its own name: desk-refunds. Two with the same name also get the start of a digest of their URI. The list comes from
// the connection, so it may differ by person. Files are read when they are needed, and only used if
// they are what the server has listed.
//
// The server's texts are foreign: models read them, with the name of the connection. Its scripts are files to
// read like others, and its allowed-tools mean nothing, unless an operator has accepted the skill, see
// Trusts of the connection. Then its scripts can run in the sandbox like those of a folder.
//
// The source never fails: a server that is away has no skills, which the log says at most once a minute. It
// keeps the lists itself: do not cache it. Put it behind other sources, whose skills come first if a name is
// the same.
func FromMCP(c host) Source {
	s := &served{connection: c, made: map[servedKey]*Skill{}, logged: rate.Sometimes{Interval: awayPause}}
	return s.skills
}

const awayPause = time.Minute // how often the log says that a server has no list of skills

// maxServed is how many skills of a server are kept, those of all people. When there are more, all are made
// again.
const maxServed = 10 * maxCached

// served is the source of a server's skills.
type served struct {
	connection host

	mu     sync.Mutex
	made   map[servedKey]*Skill // nil: it cannot be a skill here
	logged rate.Sometimes       // that there is no list
}

type servedKey struct {
	listed *connections.Skill
	name   string
	runs   bool
}

func (s *served) skills(ctx context.Context, turn *actions.Turn) ([]*Skill, error) {
	listed, err := s.connection.Skills(ctx, turn)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		s.logged.Do(func() {
			zerolog.Ctx(ctx).Warn().Err(err).Str("connection", s.connection.Key()).Msg("the skills of an MCP server are left out")
		})
		return nil, nil
	}
	times := map[string]int{}
	for _, l := range listed {
		times[l.Name]++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.made) > maxServed {
		clear(s.made)
	}
	var list []*Skill
	for _, l := range listed {
		const shown = 8 // digits
		key := servedKey{l, s.connection.Key() + "-" + l.Name, s.connection.Trusts(l)}
		if times[l.Name] > 1 {
			key.name += "-" + digest(l.URI)[:shown]
		}
		skill, ok := s.made[key]
		if !ok {
			if skill, err = newServed(ctx, s.connection, key); err != nil {
				zerolog.Ctx(ctx).Warn().Err(err).Str("connection", s.connection.Key()).Str("skill", clip(l.URI)).Msg("a skill of an MCP server is left out")
			}
			s.made[key] = skill
		}
		if skill != nil {
			list = append(list, skill)
		}
	}
	return list, nil
}

// newServed makes a skill of what a server says about it, without its instructions.
func newServed(ctx context.Context, c host, key servedKey) (*Skill, error) {
	r := &remote{connection: c, listed: key.listed, runs: key.runs, logged: rate.Sometimes{Interval: awayPause}}
	front := key.listed.Frontmatter.Clone() // JSON is YAML, if it has no escapes that only JSON has
	err := front.Canonicalize()
	if err == nil {
		err = front.Format(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true), jsontext.EscapeForHTML(false), jsontext.EscapeForJS(false))
	}
	if err != nil {
		return nil, err
	}
	s, err := r.parse([]byte("---\n" + string(front) + "\n---\n"))
	if err != nil {
		return nil, err
	}
	if n := utf8.RuneCountInString(s.Description); n > maxDescription {
		return nil, fmt.Errorf("its description has %d characters, and may have %d", n, maxDescription)
	}
	s.Name, s.Text, s.Instructions, s.remote = key.name, "", "", r
	if !r.runs {
		s.AllowedTools = nil
	}
	for _, f := range r.listed.Files {
		if f.Path == fileName {
			if r.file = f; f.Size > maxText {
				return nil, fmt.Errorf("%s has %d bytes, and may have %d", fileName, f.Size, maxText)
			}
		}
		isResource, isScript := Config{}.partOf(f.Path)
		if !isResource && !isScript {
			continue
		}
		if err := partFault(f.Path, f.Size); err != nil {
			zerolog.Ctx(ctx).Warn().Err(err).Str("skill", key.name).Str("file", clip(f.Path)).Msg("a file of a skill is left out")
			continue
		}
		if isScript && r.runs {
			s.Scripts = append(s.Scripts, Script{Name: f.Path})
			continue
		}
		s.Resources = append(s.Resources, Resource{Name: f.Path, size: f.Size, Func: func(ctx context.Context) ([]byte, error) {
			return c.ReadSkillFile(ctx, r.listed, f)
		}})
	}
	return s, nil
}

// remote is where a skill of a server comes from.
type remote struct {
	connection host
	listed     *connections.Skill
	file       connections.SkillFile // SKILL.md
	runs       bool                  // an operator has accepted it
	whole      bool                  // the skill has its instructions

	mu     sync.Mutex
	read   *Skill         // with its instructions; nil: they were not read yet
	logged rate.Sometimes // that they cannot be read
}

// server is the operator's name of the server.
func (r *remote) server() string { return r.connection.Key() }

// parse reads a SKILL.md of a server.
func (r *remote) parse(text []byte) (*Skill, error) {
	p := &parsing{path: clip(r.listed.URI), lenient: true}
	s := p.parse(text, r.listed.Name)
	if i := slices.IndexFunc(p.faults, func(f Fault) bool { return !f.Warning }); i >= 0 {
		return nil, errors.New(p.faults[i].String())
	}
	return &s, nil
}

// fill returns the skill with its instructions, which it reads once.
func (r *remote) fill(ctx context.Context, part *Skill) (*Skill, error) {
	r.mu.Lock()
	have := r.read
	r.mu.Unlock()
	if have != nil {
		return have, nil
	}
	text, err := r.connection.ReadSkillFile(ctx, r.listed, r.file)
	if err != nil {
		return nil, err
	}
	parsed, err := r.parse(text)
	if err == nil {
		err = sameFront(parsed.Text, r.listed.Frontmatter)
	}
	if err != nil {
		return nil, err
	}
	whole := *part
	whole.Text, whole.Instructions = parsed.Text, parsed.Instructions
	whole.remote = &remote{connection: r.connection, listed: r.listed, file: r.file, runs: r.runs, whole: true}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = cmp.Or(r.read, &whole)
	return r.read, nil
}

// log logs, at most once a minute, that a skill in use cannot be read.
func (r *remote) log(ctx context.Context, err error) {
	r.logged.Do(func() {
		zerolog.Ctx(ctx).Warn().Err(err).Str("connection", r.server()).Str("skill", clip(r.listed.URI)).Msg("a skill in use is left out")
	})
}

// sameFront compares the front matter of a SKILL.md with what the server listed.
func sameFront(text string, listed jsontext.Value) error {
	head, _, ok := new(parsing).split(text)
	if !ok {
		return errors.New("it has no frontmatter")
	}
	raw, err := yamltext.JSON([]byte(head))
	if err != nil {
		return fmt.Errorf("frontmatter: %w", err)
	}
	var have, want any
	if json.Unmarshal(raw, &have) != nil || json.Unmarshal(listed, &want) != nil || !sameValue(have, want) {
		return errors.New("its frontmatter is not the one that the server listed")
	}
	return nil
}

// sameValue compares JSON. Scalars are the same if they are written in the same way: readers of YAML differ in
// what they take for a text.
func sameValue(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		for name := range a {
			if _, there := b[name]; !there || !sameValue(a[name], b[name]) {
				return false
			}
		}
		return ok && len(a) == len(b)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, sameValue)
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b || a != nil && b != nil && fmt.Sprint(a) == fmt.Sprint(b)
}

// open copies the skill into a folder, for a script that is going to run. done removes it.
func (r *remote) open(ctx context.Context) (dir *os.Root, done func(), err error) {
	if !r.runs || !r.connection.Trusts(r.listed) {
		return nil, nil, errors.New("no operator has accepted the skill as it is")
	}
	folder, err := os.MkdirTemp("", "planbot-skill-")
	if err != nil {
		return nil, nil, err
	}
	dir, err = os.OpenRoot(folder)
	done = func() {
		if dir != nil {
			_ = dir.Close() // it is removed
		}
		_ = os.RemoveAll(folder) // the system removes what is left
	}
	for i := 0; err == nil && i < len(r.listed.Files); i++ {
		err = r.copyFile(ctx, dir, r.listed.Files[i])
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return dir, done, nil
}

func (r *remote) copyFile(ctx context.Context, dir *os.Root, f connections.SkillFile) error {
	content, err := r.connection.ReadSkillFile(ctx, r.listed, f)
	if err != nil {
		return err
	}
	const private, privateFolder = 0o600, 0o700
	if folder := path.Dir(f.Path); folder != "." {
		if err := dir.MkdirAll(folder, privateFolder); err != nil {
			return err
		}
	}
	return dir.WriteFile(f.Path, content, private)
}

// withInstructions reads the instructions of the skills in use that servers have. It leaves out those that
// cannot be read.
func withInstructions(ctx context.Context, list []*Skill, used func(*Skill) bool) []*Skill {
	part := func(s *Skill) bool { return s.remote != nil && !s.remote.whole && used(s) }
	if !slices.ContainsFunc(list, part) {
		return list
	}
	var all []*Skill
	for _, s := range list {
		if part(s) {
			whole, err := s.remote.fill(ctx, s)
			if err != nil {
				s.remote.log(ctx, err)
				continue
			}
			s = whole
		}
		all = append(all, s)
	}
	return all
}
