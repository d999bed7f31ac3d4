import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { writeWhole } from '../../src/store/store-files.ts'

const fullDevice = '/dev/full'

describe('a file that is replaced whole', () => {
  let dir = ''

  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'nfltr-whole-'))
  })
  afterEach(() => rmSync(dir, { recursive: true, force: true }))

  test.skipIf(!existsSync(fullDevice))(
    'stays as it was on a full disk, which is named, and leaves nothing beside it',
    () => {
      const path = join(dir, 'marker')
      writeWhole(path, { commits: 1 })
      symlinkSync(fullDevice, `${path}.${process.pid}.new`)

      expect(() => writeWhole(path, { commits: 2 })).toThrow(expect.objectContaining({ code: 'disk_full' }))

      expect(readdirSync(dir)).toEqual(['marker'])
      expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ commits: 1 })
    },
  )
})
