import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { projectOf } from '../../src/cli/compose/project.ts'

test('a project folder that is not there is named, and who named it', () => {
  const missing = join(tmpdir(), 'nfltr-no-such-folder')

  const project = (): unknown => projectOf({ env: { CLAUDE_PROJECT_DIR: missing } })

  expect(project).toThrow(
    expect.objectContaining({
      code: 'invalid_argument',
      message: expect.stringContaining(missing),
      hint: expect.stringContaining('CLAUDE_PROJECT_DIR'),
      details: { argument: 'CLAUDE_PROJECT_DIR' },
    }),
  )
})

test('a project is its folder’s git top level', () => {
  const root = mkdtempSync(join(tmpdir(), 'nfltr-project-'))
  try {
    mkdirSync(join(root, '.git'))
    mkdirSync(join(root, 'a/b'), { recursive: true })

    const below = projectOf({ env: { CLAUDE_PROJECT_DIR: join(root, 'a/b') } })

    expect(below).toEqual(projectOf({ env: { CLAUDE_PROJECT_DIR: root } }))
    expect(below.folder).toBe(realpathSync(root))
  } finally {
    rmSync(root, { recursive: true })
  }
})
