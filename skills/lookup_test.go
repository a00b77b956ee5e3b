package skills_test

import (
	"slices"

	"github.com/planbot-go/planbot/skills"
)

// resource finds the resource of that name.
func resource(s *skills.Skill, name string) (skills.Resource, bool) {
	i := slices.IndexFunc(s.Resources, func(r skills.Resource) bool { return r.Name == name })
	if i < 0 {
		return skills.Resource{}, false
	}
	return s.Resources[i], true
}

// scriptOf finds the script of that name.
func scriptOf(s *skills.Skill, name string) (skills.Script, bool) {
	i := slices.IndexFunc(s.Scripts, func(s skills.Script) bool { return s.Name == name })
	if i < 0 {
		return skills.Script{}, false
	}
	return s.Scripts[i], true
}
