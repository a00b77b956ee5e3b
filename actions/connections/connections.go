// Package connections is what all services have in common whose actions a bot may plan: how their
// actions are named, pinned and offered. Package mcp connects to MCP servers, package openapi to
// services with an OpenAPI document.
package connections

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/planbot-go/planbot/connector"
)

var keyForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,15}$`)

// CheckKey returns an error unless the key is a lower-case letter and at most 15 more lower-case letters
// and digits: so the names that [Name] makes of two keys never meet.
func CheckKey(key string) error {
	if !keyForm.MatchString(key) {
		return fmt.Errorf("connection %q: want a lower-case letter, then at most 15 lower-case letters or digits", key)
	}
	return nil
}

const (
	maxName  = 64
	maxPlain = 55 // before the digest
)

var foreign = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// Name is the name of an action in plans: the key, _ and the service's own name for it, in which other
// characters than letters, digits, _ and - become _. If that changed it, or it has over 64 characters,
// the end is a digest of both, so that two names never meet. It depends on nothing else, so an action
// keeps its name whatever comes and goes.
func Name(key, remote string) string {
	clean := foreign.ReplaceAllString(remote, "_")
	name := key + "_" + clean
	if clean == remote && len(name) <= maxName {
		return name
	}
	sum := sha256.Sum256([]byte(key + "\x00" + remote))
	return name[:min(len(name), maxPlain)] + "_" + hex.EncodeToString(sum[:4])
}

// challengeParam is a parameter of a WWW-Authenticate header (RFC 9110, section 11.6.1).
var challengeParam = regexp.MustCompile(`([A-Za-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))`)

// Needs returns which scopes a service wants of a person besides those that their token has, as the header of its
// answer says (RFC 6750, section 3.1). nil: that is not why it refuses.
func Needs(answer http.Header) *connector.ScopeError {
	for _, challenge := range answer.Values("WWW-Authenticate") {
		params := map[string]string{}
		for _, match := range challengeParam.FindAllStringSubmatch(challenge, -1) {
			params[strings.ToLower(match[1])] = match[2] + match[3]
		}
		if params["error"] == "insufficient_scope" {
			return &connector.ScopeError{Scopes: strings.Fields(params["scope"])}
		}
	}
	return nil
}

// Rules say which actions of a service may be used, by the service's own names for them. The zero value
// allows all and asks for approval as the service's package says.
type Rules struct {
	Allow      []string // nil: all
	Approve    []string // these are allowed too, and need approval
	Unapproved []string // these are allowed too, and need none
	// Trust believes what the service says about its actions: that one only reads, or may be repeated.
	// Without it such words only make things stricter.
	Trust bool
}

// Allows reports whether an action with one of the names may be used.
func (r Rules) Allows(names ...string) bool { return r.Allow == nil || r.Names(names...) }

// Names reports whether a rule names an action by one of the names.
func (r Rules) Names(names ...string) bool {
	return anyOf(r.Allow, names) || anyOf(r.Approve, names) || anyOf(r.Unapproved, names)
}

// Approval reports whether a call of an action with one of the names needs approval; otherwise says what
// applies if no rule names it. What is both approved and unapproved needs approval.
func (r Rules) Approval(otherwise bool, names ...string) bool {
	return anyOf(r.Approve, names) || otherwise && !anyOf(r.Unapproved, names)
}

func anyOf(rules, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(rules, name) })
}

// Skill is what a server says about one of its skills. Somebody else wrote all of it. Do not change it.
type Skill struct {
	URI         string         // of its SKILL.md
	Name        string         // which other skills of the server may have, too
	Frontmatter jsontext.Value // of SKILL.md: an object
	Files       []SkillFile    // all, with SKILL.md, by path
	Definition  jsontext.Value // what can be pinned under URI: everything above
	Digest      string         // of Definition
	Who         string         // whom it was listed for, as the connection calls them
}

// SkillFile is a file of a skill.
type SkillFile struct {
	Path   string // in the folder of the skill, slash-separated; it may not lead out of it
	URI    string
	Size   int64
	SHA256 string // in hex
}
