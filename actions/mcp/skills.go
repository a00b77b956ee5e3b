package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/planbot-go/planbot/actions"
	"github.com/planbot-go/planbot/actions/connections"
	"github.com/planbot-go/planbot/connector"
	"github.com/planbot-go/planbot/internal/calls"
	"github.com/planbot-go/planbot/internal/spelling"
)

// The extension of the protocol by which servers have skills, and its methods.
const (
	skillsExtension = "io.modelcontextprotocol/skills"
	listSkills      = "skills/list"
	getSkill        = "skills/get"
	skillFile       = "SKILL.md"
)

const (
	maxSkills     = 200       // of one server
	maxSkillEntry = 256 << 10 // bytes of what a server says about a skill
	maxSkillFiles = 512
	maxSkillBytes = 16 << 20 // of all files of a skill
	maxSkillFile  = 1 << 20  // of a file that is read
	maxSkillURI   = 2000
	maxRead       = 64 << 20 // bytes of resources over one session, because the library keeps them all
)

// skillList is what a principal knows about the skills of a server.
type skillList struct {
	fetch

	skills []*connections.Skill
	read   time.Time
	until  time.Time
}

// Skills returns the skills that the server lists, and those of [Config.Skills], for the person of the turn. It
// leaves out, with a line in the log, those that are broken, whose contents have no digests, or that an operator
// has accepted in another form. There are none if the server does not know skills, or the person is not signed
// in. The skills are the same ones while the server says the same. The error says why there is no list.
func (c *Connection) Skills(ctx context.Context, turn *actions.Turn) ([]*connections.Skill, error) {
	if c.cfg.SignIn != "" && turn == nil {
		return nil, nil
	}
	p, err := c.principalOf(ctx, turn)
	if errors.Is(err, connector.ErrNoUserToken) || errors.Is(err, connector.ErrNoTokenService) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("mcp %s: %w", c.cfg.Key, err)
	}
	who := ""
	if c.cfg.SignIn != "" {
		who = calls.PersonOf(turn)
	}
	list, err := c.ensureSkills(ctx, p, who)
	if err != nil {
		return nil, fmt.Errorf("mcp %s: list skills: %w", c.cfg.Key, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unchanged(list), nil
}

// ensureSkills returns the skills of a principal. It waits for the server, but not long for one that was away.
func (c *Connection) ensureSkills(ctx context.Context, p *principal, who string) ([]*connections.Skill, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := &p.skills
	if time.Now().Before(l.until) {
		return l.skills, nil
	}
	wait := listTimeout
	if p.failures > 0 || l.failures > 0 {
		wait = awayTimeout // it goes on in the background
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := c.await(ctx, p, &l.fetch, func() { c.readSkills(p, who) }); err != nil {
		return nil, err
	}
	return l.skills, l.err
}

func (c *Connection) readSkills(p *principal, who string) {
	ctx, cancel := context.WithTimeout(c.ctx, listTimeout)
	defer cancel()
	var found *skillsFound
	err := c.withSession(ctx, p, func(s *session) (err error) {
		found, err = s.skills(ctx, who, c.cfg.Skills)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	l, now := &p.skills, time.Now()
	l.done = nil
	if err != nil {
		l.skills = nil
		l.fail(err)
		return
	}
	for i, s := range found.skills { // what is the same stays the same
		if j := slices.IndexFunc(l.skills, func(old *connections.Skill) bool { return old.URI == s.URI && old.Digest == s.Digest }); j >= 0 {
			found.skills[i] = l.skills[j]
		}
	}
	l.skills, l.fetch, l.read, l.until = found.skills, fetch{}, now, now.Add(found.age)
	for _, fault := range found.faults {
		c.reportSkill(fault[0], fault[1], "a skill of an MCP server is left out")
	}
}

// reportSkill logs something about a skill, once. c.mu is locked.
func (c *Connection) reportSkill(uri, fault, message string) {
	fault = spelling.OneLine(fault, maxReason)
	if c.first(uri, fault, message) {
		c.log.Warn().Str("skill", spelling.OneLine(uri, maxShown)).Str("fault", fault).Msg(message)
	}
}

// unchanged leaves out the skills that an operator has accepted in another form. c.mu is locked.
func (c *Connection) unchanged(all []*connections.Skill) []*connections.Skill {
	pins, _ := c.cfg.Lock.Pins(c.cfg.Key)
	changed := func(s *connections.Skill) bool {
		pin, ok := pins[s.URI]
		return ok && pin.Digest != s.Digest
	}
	if !slices.ContainsFunc(all, changed) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *connections.Skill) bool {
		if changed(s) {
			c.reportSkill(s.URI, s.Digest, "a skill of an MCP server has changed since it was accepted and is not offered: see bot actions --pin")
			return true
		}
		return false
	})
}

// Trusts reports whether an operator trusts the server and has accepted the skill as it is, with all its files:
// the lock has its digest. Otherwise nothing of it may run.
func (c *Connection) Trusts(s *connections.Skill) bool {
	if !c.cfg.Rules.Trust {
		return false
	}
	pins, _ := c.cfg.Lock.Pins(c.cfg.Key)
	pin, ok := pins[s.URI]
	return ok && pin.Digest == s.Digest
}

// ReadSkillFile reads one of the skill's Files from the server, as the person for whom it was listed. It is an
// error if the content is not the one that was listed, or has more than 1 MiB; nothing of it is returned.
func (c *Connection) ReadSkillFile(ctx context.Context, s *connections.Skill, f connections.SkillFile) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("mcp %s: read %s: %w", c.cfg.Key, spelling.OneLine(f.URI, maxShown), err)
	}
	switch {
	case !slices.Contains(s.Files, f):
		return fail(errors.New("the skill has no such file"))
	case f.Size > maxSkillFile:
		return fail(fmt.Errorf("it has %d bytes, and may have %d", f.Size, maxSkillFile))
	}
	limited, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	release, err := c.slots.Take(limited, "")
	if err != nil {
		return fail(err)
	}
	defer release()
	p, err := c.principal(s.Who)
	if err != nil {
		return fail(err)
	}
	c.mu.Lock()
	signedOut := c.cfg.SignIn != "" && p.token == ""
	c.mu.Unlock()
	if signedOut {
		return fail(connector.ErrNoUserToken)
	}
	var content []byte
	err = c.withSession(limited, p, func(s *session) (err error) {
		content, err = s.readFile(limited, f)
		return err
	})
	if errors.Is(err, errNotListed) { // the server may have a newer one
		c.mu.Lock()
		p.skills.until = p.skills.read.Add(min(minListAge, p.skills.until.Sub(p.skills.read)))
		c.mu.Unlock()
	}
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return fail(err)
	}
	return content, nil
}

// withSession does what only reads. It does it again over another session if the first one may be one that the
// server has forgotten.
func (c *Connection) withSession(ctx context.Context, p *principal, do func(*session) error) error {
	for again := false; ; again = true {
		_, s, err := c.ensure(ctx, p)
		if err != nil {
			return err
		}
		err = s.using(func() error { return do(s) })
		if s.read.Load() > maxRead {
			c.kill(s) // the next one begins without what the library has kept
		}
		answered, ok := errors.AsType[*rpcError](err)
		if err == nil || ok && answered != nil || errors.Is(err, errRefused) || errors.Is(err, errNotListed) {
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		if c.kill(s); again {
			return err
		}
	}
}

// using keeps the session from being closed meanwhile.
func (s *session) using(do func() error) error {
	if s.dead.Load() || !s.use.TryRLock() {
		return sdk.ErrConnectionClosed
	}
	defer s.use.RUnlock()
	return do()
}

// skillsParams are the parameters of both methods of the extension.
type skillsParams struct {
	sdk.ParamsBase

	Cursor string `json:"cursor,omitempty"`
	URI    string `json:"uri,omitempty"`
}

// skillsResult is decoded from the answer as it came.
type skillsResult struct {
	sdk.ResultBase
}

func (s *session) ask(ctx context.Context, method string, params *skillsParams, result any) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &exchange{limit: maxPage, abort: cancel}
	_, err := sdk.CallCustomMethod[*skillsParams, *skillsResult](x.follow(following), s.client, method, params)
	known := x.outcome()
	if known.answer == nil || known.answer.Error != nil {
		return fmt.Errorf("%s: %w", method, s.reason(ctx, known, cmp.Or(err, errCached)))
	}
	var kind struct {
		ResultType string `json:"resultType"`
	}
	if json.Unmarshal(known.answer.Result, &kind) != nil || kind.ResultType != "" && kind.ResultType != "complete" ||
		json.Unmarshal(known.answer.Result, result) != nil {
		return fmt.Errorf("%s: %w: it is not what the method promises", method, errRefused)
	}
	return nil
}

// skillsFound is what reading the skills found.
type skillsFound struct {
	skills []*connections.Skill
	faults [][2]string // URI and fault of those that are left out
	age    time.Duration
}

func (f *skillsFound) add(raw jsontext.Value, who string) {
	s, err := skillOf(raw, who)
	switch {
	case err != nil:
		f.faults = append(f.faults, [2]string{s.URI, err.Error()})
	case slices.ContainsFunc(f.skills, func(other *connections.Skill) bool { return other.URI == s.URI }):
		f.faults = append(f.faults, [2]string{s.URI, "it is listed twice: the first one counts"})
	default:
		f.skills = append(f.skills, s)
	}
}

// skills reads the list of skills, and those of the URIs that it does not have.
func (s *session) skills(ctx context.Context, who string, more []string) (*skillsFound, error) {
	f := &skillsFound{age: maxListAge}
	if said := s.client.InitializeResult(); said == nil || said.Capabilities == nil || said.Capabilities.Extensions[skillsExtension] == nil {
		f.age = maxDeafAge
		return f, nil
	}
	cursor, seen := "", map[string]bool{}
	for pages := 1; ; pages++ {
		seen[cursor] = true
		var page struct {
			Skills     []jsontext.Value `json:"skills"`
			NextCursor string           `json:"nextCursor"`
			TTL        float64          `json:"ttlMs"`
		}
		if err := s.ask(ctx, listSkills, &skillsParams{Cursor: cursor}, &page); err != nil {
			return nil, err
		}
		f.age = min(f.age, max(time.Duration(min(page.TTL, float64(maxListAge.Milliseconds())))*time.Millisecond, minListAge))
		for i, raw := range page.Skills {
			if len(f.skills)+len(f.faults) == maxSkills {
				more := fmt.Sprintf("there are more than %d skills, %d more on this page", maxSkills, len(page.Skills)-i)
				f.faults = append(f.faults, [2]string{"", more})
				break
			}
			f.add(raw, who)
		}
		switch cursor = page.NextCursor; {
		case cursor != "" && seen[cursor]:
			return nil, fmt.Errorf("%w: a cursor came twice", errRefused)
		case cursor != "" && pages == maxPages:
			return nil, fmt.Errorf("%w: it has more than %d pages", errRefused, maxPages)
		case cursor != "" && len(f.skills)+len(f.faults) <= maxSkills:
			continue
		}
		break
	}
	for _, uri := range more {
		if slices.ContainsFunc(f.skills, func(s *connections.Skill) bool { return s.URI == uri }) {
			continue
		}
		var one struct {
			Skill jsontext.Value `json:"skill"`
		}
		err := s.ask(ctx, getSkill, &skillsParams{URI: uri}, &one)
		if _, answered := errors.AsType[*rpcError](err); answered || errors.Is(err, errRefused) {
			f.faults = append(f.faults, [2]string{uri, err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		if found, err := skillOf(one.Skill, who); err == nil && found.URI != uri {
			f.faults = append(f.faults, [2]string{uri, "the server answered with another skill"})
			continue
		}
		f.add(one.Skill, who)
	}
	return f, nil
}

var sha256Form = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// skillOf judges what a server says about a skill. The skill that comes with an error has at most its URI.
func skillOf(raw jsontext.Value, who string) (*connections.Skill, error) {
	var entry struct {
		URI         string         `json:"uri"`
		Frontmatter jsontext.Value `json:"frontmatter"`
		Resources   jsontext.Value `json:"resources"`
	}
	fault := func(format string, args ...any) (*connections.Skill, error) {
		return &connections.Skill{URI: spelling.OneLine(entry.URI, maxShown)}, fmt.Errorf(format, args...)
	}
	if len(raw) > maxSkillEntry {
		return fault("what the server says about it has %d bytes, and may have %d", len(raw), maxSkillEntry)
	}
	// An object with a member twice is refused here, so nothing below depends on which one counts.
	if _, err := connections.Digest(raw); err != nil {
		return fault("%w", err)
	}
	if json.Unmarshal(raw, &entry) != nil {
		return fault("it is no object with a uri, frontmatter and resources")
	}
	var front struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	root, isSkill := strings.CutSuffix(entry.URI, "/"+skillFile)
	switch {
	case !isSkill || len(entry.URI) > maxSkillURI || !strings.Contains(root, "://") || strings.ContainsAny(entry.URI, "?# \\"):
		return fault("its uri is not that of a %s", skillFile)
	case entry.Frontmatter.Kind() != '{' || json.Unmarshal(entry.Frontmatter, &front) != nil || front.Name == "" || front.Description == "":
		return fault("its frontmatter has no name and description")
	}
	if folder, err := url.PathUnescape(path.Base(root)); err != nil || folder != front.Name {
		return fault("its uri does not end with its name")
	}
	var resources []skillResource
	switch kind := entry.Resources.Kind(); {
	case kind == '"' && string(entry.Resources) == `"dynamic"`:
		return fault("its contents have no digests")
	case kind != '[' || json.Unmarshal(entry.Resources, &resources) != nil:
		return fault("it has no list of files")
	case len(resources) > maxSkillFiles:
		return fault("it has %d files, and may have %d", len(resources), maxSkillFiles)
	}
	slices.SortFunc(resources, func(a, b skillResource) int { return strings.Compare(a.URI, b.URI) })
	s := &connections.Skill{URI: entry.URI, Name: front.Name, Frontmatter: entry.Frontmatter.Clone(), Who: who}
	paths, total := map[string]bool{}, int64(0)
	for _, r := range resources {
		f, err := r.file(root)
		if err != nil {
			return fault("the file %s: %w", spelling.OneLine(r.URI, maxShown), err)
		}
		if paths[f.Path] {
			return fault("the file %s: it is listed twice", spelling.OneLine(r.URI, maxShown))
		}
		paths[f.Path] = true
		if total += f.Size; total > maxSkillBytes {
			return fault("its files have more than %d bytes", maxSkillBytes)
		}
		s.Files = append(s.Files, f)
	}
	if !paths[skillFile] {
		return fault("its list of files has no %s", skillFile)
	}
	slices.SortFunc(s.Files, func(a, b connections.SkillFile) int { return strings.Compare(a.Path, b.Path) })
	definition := map[string]any{"uri": s.URI, "frontmatter": s.Frontmatter, "resources": resources}
	var err error
	if s.Definition, err = jsonv2.Marshal(definition, jsonv2.Deterministic(true)); err != nil {
		return fault("%w", err)
	}
	if s.Digest, err = connections.Digest(s.Definition); err != nil {
		return fault("%w", err)
	}
	return s, nil
}

// isSkill reports whether a pin is that of a skill. No pin of a tool has such a member.
func isSkill(definition jsontext.Value) bool {
	var members map[string]json.RawMessage
	return json.Unmarshal(definition, &members) == nil && members["frontmatter"] != nil
}

// skillResource is a file as servers list it.
type skillResource struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   *int64 `json:"size"`
}

func (r skillResource) file(root string) (connections.SkillFile, error) {
	inside, below := strings.CutPrefix(r.URI, root+"/")
	name, err := url.PathUnescape(inside)
	odd := strings.ContainsAny(name, "\\\x00") || strings.ContainsAny(inside, "?#")
	switch {
	case !below || err != nil || len(r.URI) > maxSkillURI || !fs.ValidPath(name) || name == "." || odd:
		return connections.SkillFile{}, errors.New("its uri is not in the folder of the skill")
	case !sha256Form.MatchString(r.Digest):
		return connections.SkillFile{}, errors.New("it has no digest sha256:…")
	case r.Size == nil || *r.Size < 0 || *r.Size > maxSkillBytes:
		return connections.SkillFile{}, fmt.Errorf("it has no size of at most %d bytes", maxSkillBytes)
	}
	return connections.SkillFile{Path: name, URI: r.URI, Size: *r.Size, SHA256: strings.TrimPrefix(r.Digest, "sha256:")}, nil
}

// errNotListed says that a file is not the one that was listed.
var errNotListed = errors.New("the content is not the one that the server listed")

// readFile reads a file and checks that it is the one that was listed.
func (s *session) readFile(ctx context.Context, f connections.SkillFile) ([]byte, error) {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &exchange{limit: maxBody, abort: cancel}
	got, err := s.client.ReadResource(x.follow(following), &sdk.ReadResourceParams{URI: f.URI})
	known := x.outcome()
	if err != nil {
		return nil, s.reason(ctx, known, err)
	}
	cached := known.answer == nil
	if !cached {
		s.read.Add(int64(len(known.answer.Result)))
	}
	if got.NeedsInput() || len(got.Contents) != 1 || got.Contents[0] == nil {
		return nil, fmt.Errorf("%w: it is no single file", errNotListed)
	}
	content := got.Contents[0].Blob
	if content == nil {
		content = []byte(got.Contents[0].Text)
	}
	if sum := sha256.Sum256(content); got.Contents[0].URI == f.URI && int64(len(content)) == f.Size && hex.EncodeToString(sum[:]) == f.SHA256 {
		return content, nil
	}
	if cached { // an older one, which only another session forgets
		return nil, errCached
	}
	return nil, errNotListed
}
