import { afterEach } from 'vitest'
import { openWaits } from './open-waits.ts'

/** Runs with every test file: a test that ran out of time tells what it waited for. */
afterEach(({ task }) => {
  const late = task.result?.errors?.find(({ message }) => message.startsWith('Test timed out'))
  const waits = openWaits()
  if (late !== undefined && waits.length > 0) late.message = [late.message, 'It waited for:', ...waits].join('\n')
})
