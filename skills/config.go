package skills

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	defaultDepth       = 6
	defaultMaxSkills   = 200
	defaultMaxFolders  = 2000
	defaultMaxFiles    = 2000
	defaultMaxText     = 256 << 10
	defaultMaxResource = 1 << 20
)

// Config says where skills are looked for, and how. The zero value of every field but
// Roots is a working default.
type Config struct {
	// Roots are the folders that hold skills, or are skills themselves. They are trusted: a
	// root may be a link.
	Roots []string
	// Lenient is that of [Reading].
	Lenient bool
	// FollowLinks follows symbolic links that lead to a place inside of one of Roots. Every
	// other link, and without FollowLinks every link, is passed over.
	FollowLinks bool

	Depth       int // how deep skills are looked for, 1 being a root's own folders; 0: 6
	SearchDepth int // how deep a skill's files are looked for, 1 being its own folder; 0: 6
	MaxSkills   int // 0: 200
	MaxFolders  int // that are looked into for skills; 0: 2000
	MaxFiles    int // files and folders of one skill that are looked at; 0: 2000

	MaxText     int64 // bytes of a SKILL.md; 0: 256 KiB
	MaxResource int64 // bytes of a resource or script; 0: 1 MiB

	// Extensions of the files that count, with the dot, in any case. nil stands for
	// [ResourceExtensions] and [ScriptExtensions], an empty list for none.
	Resources, Scripts []string
	// Filters leave out files for which they return false; nil keeps all.
	ResourceFilter, ScriptFilter func(skill, name string) bool
}

// ResourceExtensions are those of resources unless [Config] says otherwise.
func ResourceExtensions() []string {
	return []string{".md", ".json", ".yaml", ".yml", ".csv", ".xml", ".txt"}
}

// ScriptExtensions are those of scripts unless [Config] says otherwise.
func ScriptExtensions() []string { return []string{".py", ".js", ".sh", ".ps1", ".cs", ".csx"} }

// complete fills in the defaults. The error lists every mistake.
func (c Config) complete() (Config, error) {
	var errs []error
	for _, number := range []struct {
		name  string
		value int64
	}{
		{"Depth", int64(c.Depth)},
		{"SearchDepth", int64(c.SearchDepth)},
		{"MaxSkills", int64(c.MaxSkills)},
		{"MaxFolders", int64(c.MaxFolders)},
		{"MaxFiles", int64(c.MaxFiles)},
		{"MaxText", c.MaxText},
		{"MaxResource", c.MaxResource},
	} {
		if number.value < 0 {
			errs = append(errs, fmt.Errorf("%s is negative", number.name))
		}
	}
	var err error
	c.Resources, err = extensions("Resources", c.Resources, ResourceExtensions())
	errs = append(errs, err)
	c.Scripts, err = extensions("Scripts", c.Scripts, ScriptExtensions())
	errs = append(errs, err)
	if err := errors.Join(errs...); err != nil {
		return c, fmt.Errorf("skills config: %w", err)
	}
	c.Depth, c.SearchDepth = cmp.Or(c.Depth, defaultDepth), cmp.Or(c.SearchDepth, defaultDepth)
	c.MaxSkills = cmp.Or(c.MaxSkills, defaultMaxSkills)
	c.MaxFolders = cmp.Or(c.MaxFolders, defaultMaxFolders)
	c.MaxFiles = cmp.Or(c.MaxFiles, defaultMaxFiles)
	c.MaxText = cmp.Or(c.MaxText, defaultMaxText)
	c.MaxResource = cmp.Or(c.MaxResource, defaultMaxResource)
	return c, nil
}

// extensions are the given ones in lower case, or the default for nil.
func extensions(field string, given, otherwise []string) ([]string, error) {
	if given == nil {
		return otherwise, nil
	}
	given = slices.Clone(given)
	var errs []error
	for i, ext := range given {
		if len(ext) < 2 || ext[0] != '.' || strings.ContainsAny(ext[1:], "./\\ ") {
			errs = append(errs, fmt.Errorf("%s: each extension must start with '.' and go on with the extension alone, not %q", field, ext))
		}
		given[i] = strings.ToLower(ext)
	}
	return given, errors.Join(errs...)
}
