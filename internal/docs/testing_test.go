package docs_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestFilesOfTheTestingPage holds what docs/testing.md shows of files that are no Go to
// those that it is about; files of CI have to be YAML.
func TestFilesOfTheTestingPage(t *testing.T) {
	t.Parallel()
	const folder = "examples/coffee/"
	tree := read(t, folder+"scenarios.yaml") + read(t, folder+"own.yaml") + read(t, folder+"actions.json") + read(t, folder+"eval.yaml")
	blocks := regexp.MustCompile("(?s)```(yaml|json)\n(.*?)```").FindAllStringSubmatch(read(t, "docs/testing.md"), -1)
	ours := 0
	for _, block := range blocks {
		if strings.Contains(tree, block[2]) {
			ours++
			continue
		}
		var pipeline struct{ Steps, Jobs any }
		if err := yaml.Unmarshal([]byte(block[2]), &pipeline); err != nil || (pipeline.Steps == nil) == (pipeline.Jobs == nil) {
			t.Errorf("is in no file of %s, and no pipeline (%v):\n%s", folder, err, block[2])
		}
	}
	if ours != 4 || len(blocks) != 6 {
		t.Errorf("%d blocks, of which %d are of files", len(blocks), ours)
	}
}
