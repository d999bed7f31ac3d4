import { execFileSync } from 'node:child_process'
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import process from 'node:process'

export const repository = join(import.meta.dirname, '../..')

/** A bug of `sim/mutants/NAME.patch`: lines of what it is, then the difference that brings it in. */
export interface Bug {
  readonly name: string
  readonly what: string
  /** Where it comes from. `core`: written by who had seen `src/core` and no check. */
  readonly from: string
  /** The test that catches it, where the simulator does not have what it takes to. */
  readonly test?: string
  /** Named regressions that it brings back. @see docs/internals/testing.md */
  readonly scenarios: readonly number[]
}

export function bugs(): readonly Bug[] {
  const names = globSync('sim/mutants/*.patch', { cwd: repository }).map((file) => basename(file, '.patch'))
  return names.sort().map(readBug)
}

function readBug(name: string): Bug {
  const [head = ''] = readFileSync(patchOf(name), 'utf8').split('diff --git', 1)
  const [what = '', ...lines] = head.split('\n')
  const facts = new Map(
    lines.flatMap((line): [string, string][] => {
      const at = line.indexOf(': ')
      return at === -1 ? [] : [[line.slice(0, at), line.slice(at + 2)]]
    }),
  )
  const test = facts.get('test')
  return {
    name,
    what,
    from: facts.get('from') ?? 'project',
    scenarios: (facts.get('scenarios') ?? '').split(', ').filter(Boolean).map(Number),
    ...(test === undefined ? {} : { test }),
  }
}

function patchOf(name: string): string {
  return join(repository, 'sim/mutants', `${name}.patch`)
}

/**
 * The sources that the bug changes, by their path in the repository, as they are with it.
 *
 * @throws where the patch does not apply any more
 */
export function plant(name: string): Readonly<Record<string, string>> {
  const patch = patchOf(name)
  const paths = [...readFileSync(patch, 'utf8').matchAll(/^\+\+\+ b\/(.+)$/gm)].map((match) => match[1] ?? '')
  const copy = mkdtempSync(join(tmpdir(), 'nfltr-mutant-'))
  try {
    for (const path of paths) {
      mkdirSync(dirname(join(copy, path)), { recursive: true })
      cpSync(join(repository, path), join(copy, path))
    }
    // Outside any repository, so that git takes the paths of the patch as they are.
    const env = { ...process.env, GIT_CEILING_DIRECTORIES: dirname(copy) }
    execFileSync('git', ['apply', '-C1', patch], { cwd: copy, env, stdio: ['ignore', 'ignore', 'pipe'] })
    return Object.fromEntries(paths.map((path) => [path, readFileSync(join(copy, path), 'utf8')]))
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}
