import { realpathSync } from 'node:fs'
import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path'
import type { PermissionMode } from './flags.ts'

/**
 * Which calls Claude Code would let through, for the tools the agent plays. It asks where it is not sure: a command that
 * is not on one of the short lists below is one the real CLI may know better, and a test must not rest on that.
 */
export type Decision =
  | { readonly allow: true; readonly reason: 'mode' | 'rule' | 'subcommandResults' }
  | { readonly allow: false; readonly message: string; readonly reasonType?: string; readonly reason?: string }

export interface PermissionRules {
  readonly mode: PermissionMode
  readonly cwd: string
  readonly allowedTools: readonly string[]
}

const readOnly =
  'echo pwd ls cat head tail wc grep sleep true false printf test [ seq date sort uniq cut tr basename dirname'.split(
    ' ',
  )
const editing = ['touch', 'mkdir', 'rm', 'rmdir', 'cp', 'mv']
const keywords = ['while', 'until', 'do', 'done', 'if', 'then', 'else', 'fi', '!', '{', '}']

export function decide(tool: string, input: Readonly<Record<string, unknown>>, rules: PermissionRules): Decision {
  if (rules.mode === 'bypassPermissions') return { allow: true, reason: 'mode' }
  const command = text(input['command'])
  if (rules.allowedTools.some((rule) => matches(rule, tool, command))) return { allow: true, reason: 'rule' }
  const decision = byTool(tool, input, rules)
  if (decision.allow || rules.mode !== 'dontAsk') return decision
  const message = `Permission to use ${tool} has been denied because Claude Code is running in don't ask mode.`
  return { ...decision, message }
}

function byTool(tool: string, input: Readonly<Record<string, unknown>>, rules: PermissionRules): Decision {
  switch (tool) {
    case 'Bash':
      return bash(text(input['command']), rules)
    case 'Read': {
      const path = text(input['file_path'])
      if (inside(path, rules.cwd)) return { allow: true, reason: 'mode' }
      return outside(`Claude requested permissions to read from ${path}, but you haven't granted it yet.`)
    }
    case 'Write':
    case 'Edit':
      return edit(text(input['file_path']), rules)
    default:
      return { allow: false, message: `Claude requested permissions to use ${tool}, but you haven't granted it yet.` }
  }
}

function edit(path: string, rules: PermissionRules): Decision {
  const ask = `Claude requested permissions to write to ${path}, but you haven't granted it yet.`
  if (!inside(path, rules.cwd)) return outside(ask)
  if (sensitive(path)) return safety(path)
  return rules.mode === 'acceptEdits' ? { allow: true, reason: 'mode' } : { allow: false, message: ask }
}

function bash(command: string, rules: PermissionRules): Decision {
  const parts = command
    .split(/&&|\|\||[;|\n]/)
    .map(withoutKeywords)
    .filter((part) => part !== '')
  for (const part of parts) {
    const decision = simpleCommand(part, rules)
    if (decision.allow) continue
    if (parts.length === 1 || decision.reasonType !== 'other') return decision
    const message = `This Bash command contains multiple operations. The following part requires approval: ${part}`
    return { allow: false, message, reasonType: 'subcommandResults' }
  }
  return { allow: true, reason: 'subcommandResults' }
}

function simpleCommand(part: string, rules: PermissionRules): Decision {
  const approval: Decision = {
    allow: false,
    message: 'This command requires approval',
    reasonType: 'other',
    reason: 'This command requires approval',
  }
  if (/[`&]|\$\(/.test(part.replaceAll('>&', '> '))) return approval
  const written = [...part.matchAll(/>>?\s*([^\s>]+)/g)]
    .map(([, path = '']) => path)
    .filter((path) => !/^\d$/.test(path))
  const words = part
    .replace(/\d?>>?(?:&\d|\s*[^\s>]+)/g, '')
    .split(/\s+/)
    .map(unquoted)
  const [name = '', ...args] = words
  const writes = editing.includes(name)
  if (!readOnly.includes(name) && !writes) return approval
  const paths = name === 'echo' || name === 'printf' ? [] : args.filter((arg) => !arg.startsWith('-'))
  for (const path of [...paths, ...written]) {
    if (!inside(path, rules.cwd)) return { allow: false, message: blocked(name, path, rules.cwd) }
    if ((writes || written.includes(path)) && sensitive(resolve(rules.cwd, path)))
      return safety(resolve(rules.cwd, path))
  }
  const target = writes ? paths[0] : written[0]
  if (target === undefined || rules.mode === 'acceptEdits') return { allow: true, reason: 'subcommandResults' }
  const place = join(rules.cwd, target)
  return {
    allow: false,
    message: `${name} in '${place}' needs approval. The path is inside the working directories for this session ('${rules.cwd}'), and Claude Code asks before a shell command creates, changes or removes files there.`,
  }
}

function withoutKeywords(part: string): string {
  const words = part.trim().split(/\s+/)
  while (words[0] !== undefined && keywords.includes(words[0])) words.shift()
  return words.join(' ')
}

function matches(rule: string, tool: string, command: string): boolean {
  const [, name = '', pattern] = /^([^(]+)(?:\((.*)\))?$/.exec(rule) ?? []
  if (name !== tool && !tool.startsWith(`${name}__`)) return false
  if (pattern === undefined || pattern === '*') return true
  const prefix = pattern.replace(/(?::\*| \*)$/, '')
  return command === prefix || (prefix !== pattern && command.startsWith(`${prefix} `))
}

function inside(path: string, cwd: string): boolean {
  const root = real(cwd)
  const place = real(isAbsolute(path) ? path : resolve(cwd, path))
  return place === root || place.startsWith(root + sep)
}

/** The real path of what exists of it: a link inside the folder must not lead outside. */
function real(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    const parent = dirname(path)
    return parent === path ? path : join(real(parent), basename(path))
  }
}

function sensitive(path: string): boolean {
  return path.split(sep).some((part) => part === '.git' || part === '.claude')
}

function safety(path: string): Decision {
  const message = `Claude requested permissions to edit ${path} which is a sensitive file.`
  return { allow: false, message, reasonType: 'safetyCheck', reason: message }
}

function outside(message: string): Decision {
  return { allow: false, message, reasonType: 'workingDir', reason: 'Path is outside allowed working directories' }
}

function blocked(name: string, path: string, cwd: string): string {
  return `${name} in '${path}' was blocked. For security, Claude Code may only use the allowed working directories for this session: '${cwd}'.`
}

function unquoted(word: string): string {
  return word.replace(/^(['"])(.*)\1$/, '$2')
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : ''
}
