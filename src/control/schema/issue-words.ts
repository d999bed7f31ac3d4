import type * as z from 'zod'

type Issue = z.core.$ZodIssue

/** What is wrong with a value, in our words: said after the argument's name. */
export function wordsOf(issue: Issue | undefined): string {
  switch (issue?.code) {
    case 'invalid_type':
      return `has to be ${article(issue.expected)}`
    case 'invalid_value':
      return `has to be one of ${issue.values.map(String).join(', ')}`
    case 'too_small':
      return tooSmall(issue)
    case 'too_big':
      return tooBig(issue)
    case 'invalid_key':
      return `has a name that ${wordsOf(issue.issues[0])}`
    case 'unrecognized_keys':
      return `is not known: ${issue.keys.join(', ')}`
    case 'custom':
      return issue.message
    default:
      return 'is not valid'
  }
}

function tooSmall({ origin, minimum, inclusive }: Issue & { code: 'too_small' }): string {
  if (origin === 'string') return Number(minimum) === 1 ? 'is empty' : `is shorter than ${minimum} characters`
  if (origin === 'array') return `has fewer than ${minimum} entries`
  return inclusive === false ? `has to be more than ${minimum}` : `has to be at least ${minimum}`
}

function tooBig({ origin, maximum }: Issue & { code: 'too_big' }): string {
  if (origin === 'string') return `is longer than ${maximum} characters`
  if (origin === 'array') return `has more than ${maximum} entries`
  return `has to be at most ${maximum}`
}

function article(expected: string): string {
  const words: Readonly<Record<string, string>> = {
    int: 'a whole number',
    number: 'a number',
    string: 'text',
    boolean: 'true or false',
    array: 'a list',
    object: 'an object',
    record: 'an object',
  }
  return words[expected] ?? expected
}
