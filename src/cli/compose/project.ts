import { createHash } from 'node:crypto'
import { realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { NfltrError } from '../../core/errors.ts'

/** The project a hub serves: its folder and the hub's id. */
export interface Project {
  readonly hubId: string
  readonly folder: string
}

const idPattern = /^[a-z0-9][a-z0-9._-]{0,62}$/

/**
 * Which hub a command is about: the id given, else one made from the project's folder, which is the git top level of
 * `CLAUDE_PROJECT_DIR` or the working directory, else that folder itself; real paths, so that links do not make two hubs.
 *
 * @throws {NfltrError} `invalid_argument` for an id that could not name a folder, or a folder that cannot be looked at
 */
export function projectOf(options: {
  readonly hubId?: string
  readonly env: Readonly<Record<string, string | undefined>>
}): Project {
  const folder = gitTopLevel(realFolder(options.env))
  const given = options.hubId ?? options.env['NFLTR_HUB_ID']
  if (given !== undefined && !idPattern.test(given)) {
    throw new NfltrError('invalid_argument', `${JSON.stringify(given)} cannot be a hub id.`, {
      hint: 'A hub id has 1 to 63 characters of a-z, 0-9, dot, _ and -, and begins with a letter or digit.',
      details: { argument: '--hub-id' },
    })
  }
  return { folder, hubId: given ?? `hub-${createHash('sha256').update(folder).digest('hex').slice(0, 16)}` }
}

function realFolder(env: Readonly<Record<string, string | undefined>>): string {
  const given = env['CLAUDE_PROJECT_DIR']
  try {
    return realpathSync(given || process.cwd())
  } catch (error) {
    throw new NfltrError('invalid_argument', `The project's folder cannot be looked at${given ? `: ${given}` : ''}.`, {
      hint: given
        ? 'CLAUDE_PROJECT_DIR names it: set it to a folder that is there.'
        : 'Change to a folder that is there.',
      details: { argument: given ? 'CLAUDE_PROJECT_DIR' : 'cwd' },
      cause: error,
    })
  }
}

/** Walks up without running git: a repository's settings are code, and a hub id must not depend on them. */
function gitTopLevel(folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    if (statSync(join(at, '.git'), { throwIfNoEntry: false }) !== undefined) return at
    if (dirname(at) === at) return folder
  }
}
