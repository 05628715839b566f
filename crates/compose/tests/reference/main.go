// Prints what Compose's own reader makes of Compose files, in the form that tests/reference.rs compares.
//
// Each argument is a folder with a file compose.yaml, and perhaps others that it names; what is printed is a JSON map
// from the folders' names to projects, or to the error with which a file is refused.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
)

func main() {
	logrus.SetOutput(io.Discard)
	all := map[string]any{}
	for _, folder := range os.Args[1:] {
		project, err := load(folder)
		if err != nil {
			all[filepath.Base(folder)] = map[string]any{"error": plain(err.Error(), folder)}
			continue
		}
		all[filepath.Base(folder)] = shown(project, folder)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	out.SetIndent("", " ")
	if err := out.Encode(all); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// load reads a folder's project as `docker compose -f compose.yaml up` does, with an environment that has nothing.
func load(folder string) (*types.Project, error) {
	file := filepath.Join(folder, "compose.yaml")
	options, err := cli.NewProjectOptions([]string{file},
		cli.WithWorkingDirectory(folder), cli.WithEnvFiles(), cli.WithDotEnv, cli.WithDefaultProfiles())
	if err != nil {
		return nil, err
	}
	return options.LoadProject(context.Background())
}

func plain(text, folder string) string {
	return strings.ReplaceAll(text, filepath.Dir(folder), "/projects")
}

func shown(project *types.Project, folder string) map[string]any {
	services := map[string]any{}
	for name, service := range project.Services {
		services[name] = ofService(service)
	}
	networks := map[string]any{}
	for name, network := range project.Networks {
		subnets := []string{}
		for _, block := range network.Ipam.Config {
			if block.Subnet != "" {
				subnets = append(subnets, block.Subnet)
			}
		}
		shown := generic(network)
		kept := map[string]any{"subnets": subnets}
		for _, key := range []string{"driver", "internal", "external", "attachable", "enable_ipv6"} {
			if value, ok := shown[key]; ok {
				kept[key] = value
			}
		}
		networks[name] = kept
	}
	volumes := []string{}
	for _, name := range project.VolumeNames() {
		volumes = append(volumes, name)
	}
	whole := map[string]any{"name": project.Name, "services": services, "networks": networks, "volumes": volumes}
	text, _ := json.Marshal(whole)
	json.Unmarshal([]byte(plain(string(text), folder)), &whole)
	return whole
}

// Keys that are compared as Compose prints them.
var asPrinted = strings.Fields(`attach cap_add cap_drop command container_name cpus cpuset depends_on dns dns_search
	domainname entrypoint environment expose hostname image init ipc labels links mac_address network_mode pid platform
	privileged profiles pull_policy read_only restart runtime security_opt stdin_open stop_signal sysctls tmpfs tty user
	working_dir`)

func ofService(service types.ServiceConfig) map[string]any {
	// Its own printer fails at some of what builds may say, which is not compared.
	service.Build = nil
	printed := generic(service)
	kept := map[string]any{}
	for _, key := range asPrinted {
		if value, ok := printed[key]; ok {
			kept[key] = value
		}
	}
	if len(service.Networks) > 0 {
		networks := map[string]any{}
		for name, network := range service.Networks {
			networks[name] = map[string]any{}
			if network != nil {
				networks[name] = only(generic(network), "aliases", "ipv4_address")
			}
		}
		kept["networks"] = networks
	}
	if len(service.Ports) > 0 {
		ports := []any{}
		for _, port := range service.Ports {
			ports = append(ports, only(generic(port), "target", "published", "protocol", "host_ip"))
		}
		kept["ports"] = ports
	}
	if len(service.Volumes) > 0 {
		volumes := []any{}
		for _, volume := range service.Volumes {
			volumes = append(volumes, only(generic(volume), "type", "source", "target", "read_only"))
		}
		kept["volumes"] = volumes
	}
	kept["replicas"] = service.GetScale()
	memory := service.MemLimit
	if service.Deploy != nil && service.Deploy.Resources.Limits != nil {
		limits := service.Deploy.Resources.Limits
		if limits.MemoryBytes != 0 {
			memory = limits.MemoryBytes
		}
		if limits.NanoCPUs != 0 {
			kept["cpus"] = limits.NanoCPUs
		}
	}
	if memory != 0 {
		kept["memory"] = int64(memory)
	}
	if check := service.HealthCheck; check != nil {
		test := []string(check.Test)
		if test == nil {
			test = []string{}
		}
		kept["healthcheck"] = map[string]any{"test": test, "disable": check.Disable}
	}
	return kept
}

func generic(value any) map[string]any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	shown := map[string]any{}
	if err := json.Unmarshal(text, &shown); err != nil {
		panic(err)
	}
	return shown
}

func only(all map[string]any, keys ...string) map[string]any {
	kept := map[string]any{}
	for _, key := range keys {
		if value, ok := all[key]; ok {
			kept[key] = value
		}
	}
	return kept
}
