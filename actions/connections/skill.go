package connections

import "github.com/go-json-experiment/json/jsontext"

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
