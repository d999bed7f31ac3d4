import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { packageFolder, programFile } from '../../src/platform/program-files.ts'
import { files, imports, read } from '../support/sources.ts'

test('a program is found by its name, and the package around it', () => {
  expect(existsSync(programFile('keeper/main'))).toBe(true)
  expect(readFileSync(join(packageFolder(), 'package.json'), 'utf8')).toContain('"name": "nfltr"')
})

test('nothing of the keeper is loaded after its start', () => {
  const dynamic = files('src/keeper/**/*.ts').filter((file) => /\bimport\(/.test(read(file)))
  const http = files('src/**/*.ts').filter((file) => /^import (?!type)[^'\n]*'node:(?:http|https)'/m.test(read(file)))

  expect(imports(read('src/keeper/main.ts'))).toContain('./server.ts')
  expect(dynamic).toEqual([])
  // It would load all of `fetch`: src/control/node-http.ts.
  expect(http).toEqual([])
})
