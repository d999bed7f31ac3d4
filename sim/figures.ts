import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const repository = fileURLToPath(new URL('..', import.meta.url))

/** What a long run was, so that anybody can run it again and compare. */
export interface Run {
  /** The file's name below docs/reference/figures, without `.json`. */
  readonly name: string
  /** What to type, without the option that writes the file. */
  readonly command: string
  readonly seed?: number
  readonly startedAtMs: number
}

/**
 * Writes the figures of a run to docs/reference/figures: what it was, on which commit, and what it found.
 *
 * @param figures - counts and measures of the run itself, in `snake_case`
 * @returns the file's path from the root of the repository
 */
export function writeFigures(run: Run, figures: Readonly<Record<string, unknown>>): string {
  const file = `docs/reference/figures/${run.name}.json`
  const document = {
    command: run.command,
    ...(run.seed === undefined ? {} : { seed: run.seed }),
    commit: git('rev-parse', 'HEAD'),
    clean_tree: git('status', '--porcelain', '--', '.', ':!docs/reference/figures') === '',
    node: process.version,
    started_at: new Date(run.startedAtMs).toISOString(),
    wall_ms: Date.now() - run.startedAtMs,
    ...figures,
  }
  const path = `${repository}${file}`
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `${JSON.stringify(document, undefined, 2)}\n`)
  return file
}

function git(...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: repository, encoding: 'utf8' }).trim()
}
