import { type ErrorCode, errorCodes, NfltrError } from '../core/errors.ts'

/** How a refusal looks to people's programs: on stdout with `--json`, in a tool error, and on the control socket. */
export interface ErrorDocument {
  readonly error: {
    readonly code: ErrorCode
    readonly message: string
    readonly hint?: string
    readonly remedy: string
    readonly details: Readonly<Record<string, unknown>>
  }
}

/** Any thrown value as a document; what is not ours becomes `internal`, with its message and without its stack. */
export function errorDocument(thrown: unknown): ErrorDocument {
  const error = toNfltrError(thrown)
  return {
    error: {
      code: error.code,
      message: error.message,
      ...(error.hint === undefined ? {} : { hint: error.hint }),
      remedy: error.remedy,
      details: error.details,
    },
  }
}

export function toNfltrError(thrown: unknown): NfltrError {
  if (thrown instanceof NfltrError) return thrown
  const message = thrown instanceof Error ? thrown.message : String(thrown)
  return new NfltrError('internal', message, { cause: thrown })
}

/** Back from a document; an unknown code of a newer version stays an error of ours. */
export function errorFromDocument(document: unknown): NfltrError {
  const fields = fieldOf(document, 'error')
  const code = fieldOf(fields, 'code')
  const message = fieldOf(fields, 'message')
  const hint = fieldOf(fields, 'hint')
  const details = fieldOf(fields, 'details')
  return new NfltrError(
    isErrorCode(code) ? code : 'internal',
    typeof message === 'string' ? message : 'The answer held no message.',
    {
      ...(typeof hint === 'string' ? { hint } : {}),
      ...(isRecord(details) ? { details } : {}),
    },
  )
}

function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(errorCodes, code)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function fieldOf(value: unknown, name: string): unknown {
  return isRecord(value) ? value[name] : undefined
}
