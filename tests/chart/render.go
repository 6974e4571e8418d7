// Renders a Helm chart as Helm does, with Go's templates and the functions of Sprig: for machines without Helm.
//
//	render CHART RELEASE NAMESPACE < values.json
//
// It prints the objects as JSON, one on each line. It knows the parts of Helm that the chart uses.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"github.com/ghodss/yaml"
)

func main() {
	if err := render(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func render(chart, release, namespace string) error {
	values, err := values(chart)
	if err != nil {
		return err
	}
	about := map[string]interface{}{}
	if err := read(filepath.Join(chart, "Chart.yaml"), &about); err != nil {
		return err
	}
	data := map[string]interface{}{
		"Values": values,
		// Helm names the keys of a chart with a capital.
		"Chart": map[string]interface{}{
			"Name": about["name"], "Version": about["version"], "AppVersion": about["appVersion"],
		},
		"Release": map[string]interface{}{"Name": release, "Namespace": namespace, "Service": "Helm"},
	}
	files, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	if err != nil {
		return err
	}
	all := template.New("chart")
	all.Funcs(functions(all))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if _, err := all.New(filepath.Base(file)).Parse(string(text)); err != nil {
			return err
		}
	}
	for _, file := range files {
		if filepath.Ext(file) != ".yaml" {
			continue
		}
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, filepath.Base(file), data); err != nil {
			return err
		}
		for _, document := range strings.Split(out.String(), "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			object, err := yaml.YAMLToJSON([]byte(document))
			if err != nil {
				return fmt.Errorf("%s: %w\n%s", file, err, document)
			}
			fmt.Println(string(object))
		}
	}
	return nil
}

// The chart's values, and those of standard input over them. Maps are merged, but `config` is replaced, so that a test
// says what it has.
func values(chart string) (map[string]interface{}, error) {
	values := map[string]interface{}{}
	if err := read(filepath.Join(chart, "values.yaml"), &values); err != nil {
		return nil, err
	}
	given := map[string]interface{}{}
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for key, value := range given {
		values[key] = merged(key, values[key], value)
	}
	return values, nil
}

func merged(key string, old, new interface{}) interface{} {
	oldMap, isMap := old.(map[string]interface{})
	newMap, isNewMap := new.(map[string]interface{})
	if !isMap || !isNewMap || key == "config" {
		return new
	}
	for key, value := range newMap {
		oldMap[key] = merged(key, oldMap[key], value)
	}
	return oldMap
}

func read(file string, into interface{}) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return yaml.Unmarshal(text, into)
}

// Sprig's functions, and those that Helm adds.
func functions(all *template.Template) template.FuncMap {
	functions := sprig.TxtFuncMap()
	functions["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["fromYaml"] = func(text string) (map[string]interface{}, error) {
		value := map[string]interface{}{}
		err := yaml.Unmarshal([]byte(text), &value)
		return value, err
	}
	functions["fromJson"] = func(text string) (map[string]interface{}, error) {
		value := map[string]interface{}{}
		err := json.Unmarshal([]byte(text), &value)
		return value, err
	}
	functions["fromJsonArray"] = func(text string) ([]interface{}, error) {
		var value []interface{}
		err := json.Unmarshal([]byte(text), &value)
		return value, err
	}
	return functions
}
