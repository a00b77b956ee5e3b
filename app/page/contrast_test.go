package page_test

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestContrast: a rule that paints a background also says the colour of the text on it, and people
// can read every text in both themes, with the contrast of 4.5 that WCAG asks for. So no text gets
// its colour from one surface and its background from another.
func TestContrast(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("assets/page.css")
	if err != nil {
		t.Fatal(err)
	}
	sheet := string(raw)
	variables := map[string]string{}
	for _, v := range regexp.MustCompile(`(?m)^  (--[a-z-]+): (.+);$`).FindAllStringSubmatch(sheet, -1) {
		variables[v[1]] = v[2]
	}
	background := regexp.MustCompile(`[{;] background: ([^;]+);`)
	colour := regexp.MustCompile(`[{;] color: ([^;]+);`)
	checked := 0
	for _, rule := range regexp.MustCompile(`(?m)^([^@\s{}][^{}]*) (\{[^{}]*\})$`).FindAllStringSubmatch(sheet, -1) {
		var under []string
		painted := background.FindStringSubmatch(rule[2])
		words := colour.FindStringSubmatch(rule[2])
		switch {
		case painted != nil && painted[1] != "none" && !strings.HasPrefix(painted[1], "linear-gradient"):
			if words == nil || words[1] == "inherit" {
				t.Errorf("%s paints a background and leaves the colour of its text to what is around it", rule[1])
				continue
			}
			under = []string{painted[1]}
		case words == nil || words[1] == "inherit":
			continue
		default: // it may stand on each of these
			under = []string{"var(--back)", "var(--card)"}
		}
		for _, surface := range under {
			for theme := range 2 {
				checked++
				if ratio := contrast(t, variables, words[1], surface, theme); ratio < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.1f in the %s theme", rule[1], words[1], surface, ratio, []string{"light", "dark"}[theme])
				}
			}
		}
	}
	if checked < 60 {
		t.Errorf("checked only %d pairs", checked)
	}
}

// contrast is the ratio of WCAG between two colours in a theme: 0 is light, 1 is dark.
func contrast(t *testing.T, variables map[string]string, a, b string, theme int) float64 {
	t.Helper()
	first := luminance(t, variables, a, theme)
	second := luminance(t, variables, b, theme)
	return (max(first, second) + 0.05) / (min(first, second) + 0.05)
}

func luminance(t *testing.T, variables map[string]string, value string, theme int) float64 {
	t.Helper()
	if name, ok := strings.CutPrefix(value, "var("); ok {
		value = variables[strings.TrimSuffix(name, ")")]
	}
	if both, ok := strings.CutPrefix(value, "light-dark("); ok {
		value = strings.Split(strings.TrimSuffix(both, ")"), ", ")[theme]
	}
	if len(value) == 4 { // #fff
		value = fmt.Sprintf("#%c%c%c%c%c%c", value[1], value[1], value[2], value[2], value[3], value[3])
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		channel, err := strconv.ParseUint(value[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatalf("%q is no colour: %v", value, err)
		}
		c := float64(channel) / 255
		if c <= 0.04045 {
			sum += weight * c / 12.92
		} else {
			sum += weight * math.Pow((c+0.055)/1.055, 2.4)
		}
	}
	return sum
}
