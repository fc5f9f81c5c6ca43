export * from '../../domain/numbers.ts'
