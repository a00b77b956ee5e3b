package knowledge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Names of rights for [Folder.Access]; the others have a value behind them, such as "person:" and an
// object id.
const (
	// EveryoneInTenant lets everybody of the index's tenant read. "everyone" is the same.
	EveryoneInTenant = "everyone-in-tenant"
	// Nobody lets nobody read.
	Nobody = "nobody"
)

// kinds are the rights that have a value: "person:", "conversation:", "team:" and "group:".
var kinds = []string{"person", "conversation", "team", "group"}

// Caller is on whose behalf a source is searched. A source returns only what the Caller may read. The
// zero Caller may read nothing.
type Caller struct {
	// Tenant is the id of the tenant that the channel states.
	Tenant string
	// Conversation and Team are where the answer will be read. Conversation has no thread.
	Conversation, Team string
	// Personal says that only Person reads the answer. In all other conversations everybody there
	// does, so Person and Groups count for nothing.
	Personal bool
	// Person is the object id of the person in Entra ID.
	Person string
	// Groups are what the person is a member of, by the names that the operator's function returns.
	Groups []string
}

// rights are those of which the caller has at least one for each document that it may read.
func (c Caller) rights(tenant string) []string {
	if !strings.EqualFold(c.Tenant, tenant) || c.Conversation == "" && c.Person == "" {
		return nil
	}
	all := []string{EveryoneInTenant, "conversation:" + c.Conversation, "team:" + strings.ToLower(c.Team)}
	if c.Personal {
		all = append(all, "person:"+strings.ToLower(c.Person))
		for _, group := range c.Groups {
			all = append(all, "group:"+group)
		}
	}
	without := []string{"conversation:", "team:", "person:", "group:"}
	return slices.DeleteFunc(all, func(right string) bool { return slices.Contains(without, right) })
}

// tokens are the caller's rights as accessTokens returns them.
func (c Caller) tokens(tenant string) map[string]bool {
	all := map[string]bool{}
	for _, right := range c.rights(tenant) {
		kind, value, _ := strings.Cut(right, ":")
		all[hashed(tenant, kind, value)] = true
	}
	return all
}

// CheckAccess says what is wrong with rights as [Folder] has them.
func CheckAccess(access []string) error {
	_, err := accessTokens("", access)
	return err
}

// accessTokens turns rights as people write them into tokens. Values are hashed, so they are never part
// of a key, a query or a log line.
func accessTokens(tenant string, access []string) ([]string, error) {
	var tokens []string
	for _, right := range access {
		right = strings.TrimSpace(right)
		kind, value, _ := strings.Cut(right, ":")
		value = strings.TrimSpace(value)
		switch {
		case right == Nobody:
		case right == EveryoneInTenant, strings.EqualFold(right, "everyone"):
			tokens = append(tokens, hashed(tenant, EveryoneInTenant, ""))
		case slices.Contains(kinds, kind) && value != "":
			tokens = append(tokens, hashed(tenant, kind, value))
		default:
			return nil, fmt.Errorf("%.60q is no right; write everyone, %s, or %s: with an id behind it", right, Nobody, strings.Join(kinds, ":, "))
		}
	}
	slices.Sort(tokens)
	return slices.Compact(tokens), nil
}

// hashed is 32 letters and digits for one right. The length in front of each part keeps them apart.
func hashed(tenant, kind, value string) string {
	if kind == "person" || kind == "team" {
		value = strings.ToLower(value) // ids of Entra ID have no case; whose names groups have, only the operator knows
	}
	h := sha256.New()
	for _, part := range []string{strings.ToLower(tenant), kind, value} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:32]
}
