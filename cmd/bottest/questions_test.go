package main

import (
	"strings"
	"testing"
)

// TestEvalOfQuestions: the fifty questions about the handbook find their passages.
func TestEvalOfQuestions(t *testing.T) {
	t.Parallel()
	const file = "../../examples/handbook/questions.yaml"
	code, out, errs := execute(t, "", "eval", "--min=0.9", file)
	if code != 0 || errs != "" || !strings.Contains(out, "\nall             50     0.9") || !strings.Contains(out, "found by words\n") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, out, _ := execute(t, "", "eval", "--min=1", "--json", file); code != 1 || !strings.Contains(out, `"ndcgAt5"`) {
		t.Errorf("%d %s", code, out)
	}
	if code, _, errs := execute(t, "", "eval", "--times=2", file); code != 2 || !strings.Contains(errs, "are for utterances") {
		t.Errorf("%d %s", code, errs)
	}
}
