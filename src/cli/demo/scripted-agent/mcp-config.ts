import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Flags } from './flags.ts'
import { isRecord, ScenarioError } from './values.ts'

export interface ServerConfig {
  readonly name: string
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly timeoutMs: number | undefined
  /** Where it was configured, in the words of `init`. */
  readonly source: 'dynamic' | 'local' | 'project'
}

const known = ['type', 'command', 'args', 'env', 'timeout', 'alwaysLoad']

/**
 * The stdio servers this session has: `--mcp-config`, and without `--strict-mcp-config` also what `claude mcp add` wrote
 * (`.claude.json` of the configuration folder, for this working directory) and the project's `.mcp.json`.
 */
export function configuredServers(flags: Flags, places: { cwd: string; configDir: string }): readonly ServerConfig[] {
  const found = new Map<string, ServerConfig>()
  const add = (servers: unknown, source: ServerConfig['source']): void => {
    for (const [name, config] of Object.entries(isRecord(servers) ? servers : {})) {
      found.set(name, serverConfig(name, config, source))
    }
  }
  if (!flags.strictMcpConfig) {
    add(document(join(places.cwd, '.mcp.json'))?.['mcpServers'], 'project')
    const state = document(join(places.configDir, '.claude.json'))
    const projects = isRecord(state?.['projects']) ? state['projects'] : {}
    const project = projects[places.cwd]
    add(state?.['mcpServers'], 'local')
    add(isRecord(project) ? project['mcpServers'] : undefined, 'local')
  }
  for (const config of flags.mcpConfigs) {
    const parsed = config.trimStart().startsWith('{') ? parse(config, '--mcp-config') : document(config)
    if (parsed === undefined) throw new ScenarioError(`--mcp-config: there is no file ${config}`)
    add(parsed['mcpServers'], 'dynamic')
  }
  return [...found.values()]
}

function serverConfig(name: string, value: unknown, source: ServerConfig['source']): ServerConfig {
  const config = isRecord(value) ? value : {}
  const stranger = Object.keys(config).find((key) => !known.includes(key))
  if (stranger !== undefined) throw new ScenarioError(`MCP server ${name}: unknown key ${stranger}`)
  const { type = 'stdio', command, args = [], env = {}, timeout } = config
  if (type !== 'stdio' || typeof command !== 'string' || !Array.isArray(args) || !isRecord(env)) {
    throw new ScenarioError(`MCP server ${name}: only stdio servers with a command are played`)
  }
  return {
    name,
    command,
    args: args.map(String),
    env: Object.fromEntries(Object.entries(env).map(([key, item]) => [key, String(item)])),
    timeoutMs: typeof timeout === 'number' ? timeout : undefined,
    source,
  }
}

function document(path: string): Record<string, unknown> | undefined {
  return existsSync(path) ? parse(readFileSync(path, 'utf8'), path) : undefined
}

function parse(text: string, where: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text)
    if (isRecord(value)) return value
  } catch {
    // Said below, with the place.
  }
  throw new ScenarioError(`${where} holds no JSON object`)
}
