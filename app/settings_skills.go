package app

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/planbot-go/planbot/skills"
)

// skillSettings say which skills the bot has, and what it does with them.
type skillSettings struct {
	dirs    []string
	approve []string // tools
	lenient bool
	links   bool
	reload  bool
}

// skillTools are the words of BOT_SKILLS_APPROVAL.
var skillTools = map[string][]string{
	"load": {skills.LoadSkill}, "read": {skills.ReadResource}, "run": {skills.RunScript},
	"all": {skills.LoadSkill, skills.ReadResource, skills.RunScript}, "none": {},
}

// skillWord is the word of BOT_SKILLS_APPROVAL for a tool, "" if it is none.
func skillWord(tool string) string {
	for word, tools := range skillTools {
		if len(tools) == 1 && strings.EqualFold(tools[0], tool) {
			return word
		}
	}
	return ""
}

func (c *config) checkSkills(f *faults) {
	s := &c.skills
	s.lenient = truth(f, "BOT_SKILLS_LENIENT", c.SkillsLenient)
	s.links = truth(f, "BOT_SKILLS_LINKS", c.SkillsLinks)
	s.reload = truth(f, "BOT_SKILLS_RELOAD", c.SkillsReload)
	s.approve = approvedTools(f, c.SkillsApproval)
	if c.SkillsSandbox = cmp.Or(strings.ToLower(c.SkillsSandbox), autoSandbox); !slices.Contains(sandboxes(), c.SkillsSandbox) {
		f.add("BOT_SKILLS_SANDBOX", "%q is none of %s", c.SkillsSandbox, strings.Join(sandboxes(), ", "))
	}
	s.dirs = skillDirs(c.SkillsDir)
	for _, dir := range s.dirs {
		if info, err := os.Stat(dir); err != nil && !s.reload || err == nil && !info.IsDir() {
			f.add("BOT_SKILLS_DIR", "%q is no folder", dir)
		}
	}
	for _, set := range []struct{ variable, value string }{
		{"BOT_SKILLS_LENIENT", c.SkillsLenient},
		{"BOT_SKILLS_LINKS", c.SkillsLinks},
		{"BOT_SKILLS_RELOAD", c.SkillsReload},
		{"BOT_SKILLS_APPROVAL", c.SkillsApproval},
	} {
		if set.value != "" && len(s.dirs) == 0 {
			f.add(set.variable, "needs BOT_SKILLS_DIR: there are no skills without it")
		}
	}
}

// skillDirs reads a list of folders as PATH is one.
func skillDirs(list string) []string {
	return slices.DeleteFunc(filepath.SplitList(list), func(dir string) bool { return strings.TrimSpace(dir) == "" })
}

// approvedTools are the tools of which a person has to approve each call.
func approvedTools(f *faults, list string) []string {
	approve := []string{}
	words := f.entries("BOT_SKILLS_APPROVAL", list)
	if len(words) == 0 {
		words = []string{"run"}
	}
	for _, word := range words {
		tools, ok := skillTools[strings.ToLower(word)]
		switch {
		case !ok:
			f.add("BOT_SKILLS_APPROVAL", "%q is none of load, read, run, all and none", word)
		case len(words) > 1 && (strings.EqualFold(word, "all") || strings.EqualFold(word, "none")):
			f.add("BOT_SKILLS_APPROVAL", "%s says it for all three, so it stands alone", word)
		}
		approve = append(approve, tools...)
	}
	return approve
}
