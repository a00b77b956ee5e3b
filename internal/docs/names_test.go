package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	apiLine  = regexp.MustCompile(`(?m)^([a-z/]+): (?:const|var|func|type) (\w+)(?:\[[^\]]*\])?(.*)$`)
	apiOwned = regexp.MustCompile(`^(?: struct| interface)?, (?:func \([^)]*\) )?(\w+)`)
	inCode   = regexp.MustCompile("`[^`\n]+`")
	aGoName  = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)(?:\.([A-Z]\w*))?`)
)

// TestNamesExist: what a page calls actions.Add or connector.Client.Send is in internal/archtest/testdata/api.txt.
func TestNamesExist(t *testing.T) {
	t.Parallel()
	packages, known := map[string]bool{}, map[string]bool{}
	for _, line := range apiLine.FindAllStringSubmatch(read(t, "internal/archtest/testdata/api.txt"), -1) {
		name := line[1][strings.LastIndexByte(line[1], '/')+1:]
		packages[name] = true
		known[name+"."+line[2]] = true
		if owned := apiOwned.FindStringSubmatch(line[3]); owned != nil {
			known[name+"."+line[2]+"."+owned[1]] = true
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		page, err := filepath.Rel(root, page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range inCode.FindAllString(anyBlock.ReplaceAllString(read(t, page), ""), -1) {
			for _, name := range aGoName.FindAllStringSubmatch(code, -1) {
				if !packages[name[1]] {
					continue
				}
				checked++
				inTurn := name[1] == "turn" && known["actions.Turn."+name[2]] // the pages call an action's turn so
				if full := name[0]; !known[full] && !inTurn {
					t.Errorf("%s: %s: the libraries export no %s", page, code, full)
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("checked only %d names", checked)
	}
}
