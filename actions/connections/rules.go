package connections

import "slices"

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
