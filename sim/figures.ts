import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import process from 'node:process'
import { fileURLToPath } from 'node:url'

const repository = fileURLToPath(new URL('..', import.meta.url))

/** What a long run was, so that anybody can run it again and compare. */
export interface Origin {
  readonly commit: string
  readonly is_clean: boolean
  readonly arguments: readonly string[]
  readonly node: string
  readonly started_at: string
}

/** Notes what is about to be run. Called before the run: the tree may change while it takes its time. */
export function originOf(): Origin {
  return {
    commit: git('rev-parse', 'HEAD'),
    is_clean: git('status', '--porcelain') === '',
    arguments: process.argv.slice(2),
    node: process.version,
    started_at: new Date().toISOString(),
  }
}

/**
 * Writes what a run found to docs/reference/figures, with what it was.
 *
 * @param name - the file's name, without `.json`
 * @param figures - counts and measures of the run itself, in `snake_case`
 */
export function writeFigures(name: string, origin: Origin, figures: Readonly<Record<string, unknown>>): void {
  const path = `${repository}docs/reference/figures/${name}.json`
  const wallMs = Date.now() - Date.parse(origin.started_at)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `${JSON.stringify({ ...origin, wall_ms: wallMs, ...figures }, undefined, 2)}\n`)
}

function git(...args: readonly string[]): string {
  return execFileSync('git', args, { cwd: repository, encoding: 'utf8' }).trim()
}
